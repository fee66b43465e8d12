// A conversation is a tree of messages: an edited question or a repeated answer is a sibling of the first one. `leaf` is
// the last message of the branch that is shown.
//
// {id, title, changed, system, leaf, messages: {id: {id, parent, role, text, images, reasoning, tools, tokens, figures, error,
//  model, group: of the answers of several models to one question, which are shown side by side}}}

// crypto.randomUUID() exists on secure origins only.
export function makeId() {
    return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function makeConversation() {
    return { id: makeId(), title: "New conversation", changed: Date.now(), system: "", leaf: null, messages: {} };
}

// Appends a message after `parent` (null: as a first message) and shows its branch.
export function addMessage(conversation, parent, message) {
    const made = { id: makeId(), parent, text: "", images: [], ...message };
    conversation.messages[made.id] = made;
    conversation.leaf = made.id;
    conversation.changed = Date.now();
    if (conversation.title === "New conversation" && message.role === "user" && message.text)
        conversation.title = message.text.slice(0, 60);
    return made;
}

// The messages of the shown branch, first to last.
export function branch(conversation, leaf = conversation.leaf) {
    const path = [];
    for (let id = leaf; id; id = conversation.messages[id].parent)
        path.unshift(conversation.messages[id]);
    return path;
}

// The messages with the same parent, in the order in which they were made.
export function siblings(conversation, message) {
    return Object.values(conversation.messages).filter((other) => other.parent === message.parent);
}

// The answers that are shown beside this one, itself included.
export function answersBeside(conversation, message) {
    return message.group ? siblings(conversation, message).filter((other) => other.group === message.group) : [message];
}

// Shows the branch through `message`: its last descendants.
export function showBranch(conversation, message) {
    let last = message;
    for (;;) {
        const next = Object.values(conversation.messages).filter((other) => other.parent === last.id).pop();
        if (!next)
            break;
        last = next;
    }
    conversation.leaf = last.id;
}

// The `messages` field of a chat completion for the branch up to `leaf`.
export function requestMessages(conversation, leaf = conversation.leaf) {
    const list = conversation.system ? [{ role: "system", content: conversation.system }] : [];
    for (const message of branch(conversation, leaf)) {
        if (message.role === "user" && message.images.length > 0) {
            const parts = message.images.map((url) => {
                const type = { video: "video_url", audio: "audio_url" }[/^data:(\w+)/.exec(url)?.[1]] ?? "image_url";
                return { type, [type]: { url } };
            });
            list.push({ role: "user", content: [...parts, { type: "text", text: message.text }] });
        } else if (message.text || message.role === "user") {
            list.push({ role: message.role, content: message.text });
        }
    }
    return list;
}

// Reads an exported conversation; throws on anything else. Unknown fields are dropped.
export function importConversation(text) {
    const data = JSON.parse(text);
    const made = makeConversation();
    const string = (value) => (typeof value === "string" ? value : "");
    made.title = string(data.title).slice(0, 200) || "Imported conversation";
    made.system = string(data.system);
    if (typeof data.messages !== "object" || data.messages === null)
        throw new Error("the file has no messages");
    for (const [id, message] of Object.entries(data.messages)) {
        if (!/^[0-9a-f]{32}$/.test(id) || !["user", "assistant"].includes(message?.role))
            throw new Error("a message has no valid id and role");
        const images = Array.isArray(message.images) ? message.images : [];
        made.messages[id] = {
            id,
            parent: message.parent ?? null,
            role: message.role,
            text: string(message.text),
            reasoning: string(message.reasoning),
            model: string(message.model),
            group: string(message.group),
            images: images.filter((url) => typeof url === "string" && /^data:(image|video|audio)\/[a-z0-9+.-]+;base64,/.test(url)),
        };
    }
    for (const message of Object.values(made.messages)) {
        const seen = new Set();
        for (let id = message.id; id !== null; id = made.messages[id].parent) {
            if (seen.has(id) || !made.messages[id])
                throw new Error("the messages do not form a tree");
            seen.add(id);
        }
    }
    made.leaf = made.messages[data.leaf] ? data.leaf : (Object.keys(made.messages).pop() ?? null);
    return made;
}
