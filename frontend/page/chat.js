// The chat view: the list of conversations, the messages of the shown branch, and the composer.
import { button, element, find, preview, save } from "./elements.js";
import { ServerError, streamChat } from "./server.js";
import { loadConversations, removeConversation, storeConversation } from "./storage.js";
import { addMessage, answersBeside, branch, importConversation, makeConversation, makeId, requestMessages, showBranch } from "./conversation.js";
import { answeringModels, requestFields, systemPrompt } from "./settings.js";
import { makeMessageView } from "./message.js";
import { showCode } from "./request_code.js";

const RENDER_MS = 100; // while streaming
const MAX_IMAGE_BYTES = 20e6;

let conversations = [];
let current = makeConversation();
let views = new Map(); // of the shown messages, by id
let attached = []; // data URLs
let running = null; // AbortController of the answer in progress

function say(text) {
    find("server-state").textContent = text;
}

async function keep() {
    try {
        await storeConversation(current);
    } catch (failure) {
        say(`not stored: ${failure.message}`);
    }
}

function showList() {
    find("conversation-list").replaceChildren(...conversations.map((one) => element("li", { "aria-current": one === current ? "true" : null },
        button(one.title, () => choose(one), { class: "title" }),
        button("Delete", () => remove(one), { "aria-label": `Delete ${one.title}` }))));
    find("conversation-title").textContent = current.title;
}

function showMessages() {
    const actions = { show, edit, retry };
    views = new Map();
    const rows = branch(current).map((message) => {
        const beside = answersBeside(current, message).map((one) => {
            views.set(one.id, makeMessageView(current, one, actions));
            return views.get(one.id).element;
        });
        return beside.length > 1 ? element("div", { class: "beside" }, ...beside) : beside[0];
    });
    find("messages").replaceChildren(...rows);
    find("messages").scrollTop = find("messages").scrollHeight;
}

function choose(conversation) {
    running?.abort();
    current = conversation;
    showList();
    showMessages();
}

async function remove(conversation) {
    await removeConversation(conversation.id);
    conversations = conversations.filter((one) => one !== conversation);
    if (conversation === current)
        current = makeConversation();
    choose(current);
}

function show(message) {
    showBranch(current, message);
    showMessages();
    keep();
}

function edit(message) {
    find("prompt").value = message.text;
    attached = [...message.images];
    current.leaf = message.parent;
    showAttached();
    showMessages();
    find("prompt").focus();
}

function retry(message) {
    if (!running)
        answer(message.parent, message.model ? [message.model] : answeringModels());
}

function showAttached() {
    find("attachments").replaceChildren(...attached.map((url, index) => element("li", {}, preview(url, `Attachment ${index + 1}`),
        button("Remove", () => {
            attached.splice(index, 1);
            showAttached();
        }, { "aria-label": `Remove attachment ${index + 1}` }))));
}

async function attach(files) {
    for (const file of files) {
        if (!/^(image|video|audio)\//.test(file.type))
            continue;
        if (file.size > MAX_IMAGE_BYTES) {
            say(`${file.name} is larger than 20 MB`);
            continue;
        }
        attached.push(await new Promise((resolve, reject) => {
            const reader = new FileReader();
            reader.onload = () => resolve(reader.result);
            reader.onerror = () => reject(reader.error);
            reader.readAsDataURL(file);
        }));
    }
    showAttached();
}

// Adds what one chunk of the stream says to the message.
function takeChunk(message, chunk, times) {
    const choice = chunk.choices?.[0];
    const delta = choice?.delta ?? {};
    const reasoning = delta.reasoning_content ?? delta.reasoning;
    if (times.first === undefined && (delta.content || reasoning || delta.tool_calls))
        times.first = performance.now();
    message.text += delta.content ?? "";
    message.reasoning = (message.reasoning ?? "") + (reasoning ?? "");
    for (const call of delta.tool_calls ?? []) {
        message.tools ??= [];
        message.tools[call.index] ??= { name: "", arguments: "" };
        message.tools[call.index].name += call.function?.name ?? "";
        message.tools[call.index].arguments += call.function?.arguments ?? "";
    }
    for (const token of choice?.logprobs?.content ?? []) {
        message.tokens ??= [];
        message.tokens.push({ token: token.token, logprob: token.logprob, top: token.top_logprobs });
    }
    if (choice?.finish_reason)
        message.figures = { ...message.figures, finish_reason: choice.finish_reason };
    if (chunk.usage) {
        const { prompt_tokens, completion_tokens, prompt_tokens_details } = chunk.usage;
        message.figures = { ...message.figures, prompt_tokens, completion_tokens, cached_tokens: prompt_tokens_details?.cached_tokens };
    }
}

function setRunning(controller) {
    running = controller;
    find("stop").disabled = !controller;
    find("send").disabled = Boolean(controller);
}

// Streams an answer of each model to the branch that ends with the message `parent`; the first one's is shown as the branch.
async function answer(parent, models) {
    const conversation = current;
    let body;
    try {
        body = { ...requestFields(), messages: requestMessages(conversation, parent), stream: true, stream_options: { include_usage: true } };
    } catch (failure) {
        say(failure.message);
        return;
    }
    const group = models.length > 1 ? makeId() : "";
    const messages = models.map((model) => addMessage(conversation, parent, { role: "assistant", model, group, streaming: true }));
    conversation.leaf = messages[0].id;
    const controller = new AbortController();
    setRunning(controller);
    showMessages();
    await Promise.all(messages.map((message) => stream(message, { ...body, model: message.model }, controller)));
    setRunning(null);
    finish(conversation);
}

async function stream(message, body, controller) {
    const times = { start: performance.now() };
    let timer = null;
    const update = () => {
        timer = null;
        const log = find("messages");
        const follows = log.scrollHeight - log.scrollTop - log.clientHeight < 80;
        views.get(message.id)?.update();
        if (follows)
            log.scrollTop = log.scrollHeight;
    };
    try {
        await streamChat(body, controller.signal, (chunk) => {
            takeChunk(message, chunk, times);
            timer ??= setTimeout(update, RENDER_MS);
        });
    } catch (failure) {
        if (failure.name !== "AbortError")
            message.error = failure.message;
        if (failure instanceof ServerError && failure.status === 401)
            find("key-dialog").showModal();
    }
    clearTimeout(timer);
    measure(message, times);
    update();
}

function measure(message, times) {
    delete message.streaming;
    const seconds = (performance.now() - (times.first ?? times.start)) / 1000;
    const figures = { ...message.figures };
    if (times.first !== undefined)
        figures.first_ms = times.first - times.start;
    if (figures.completion_tokens > 1 && seconds > 0.05) // shorter times are those of one network packet
        figures.rate = (figures.completion_tokens - 1) / seconds;
    message.figures = figures;
}

function finish(conversation) {
    if (!conversations.includes(conversation))
        conversations.unshift(conversation);
    if (conversation === current) {
        keep();
        showList();
        showMessages();
    } else {
        storeConversation(conversation);
    }
}

function submit(event) {
    event.preventDefault();
    const text = find("prompt").value.trim();
    if (running || (!text && attached.length === 0))
        return;
    current.system = systemPrompt();
    const message = addMessage(current, current.leaf, { role: "user", text, images: attached });
    attached = [];
    find("prompt").value = "";
    showAttached();
    answer(message.id, answeringModels());
}

async function importFile(file) {
    try {
        current = importConversation(await file.text());
        conversations.unshift(current);
        await keep();
        choose(current);
    } catch (failure) {
        say(`not imported: ${failure.message}`);
    }
}

function listen() {
    find("composer").addEventListener("submit", submit);
    find("prompt").addEventListener("keydown", (event) => {
        if (event.key === "Enter" && !event.shiftKey && !event.isComposing)
            submit(event);
    });
    find("prompt").addEventListener("paste", (event) => attach(event.clipboardData.files));
    find("chat").addEventListener("dragover", (event) => event.preventDefault());
    find("chat").addEventListener("drop", (event) => {
        event.preventDefault();
        attach(event.dataTransfer.files);
    });
    find("attach").addEventListener("click", () => find("attach-file").click());
    find("attach-file").addEventListener("change", (event) => attach(event.target.files));
    find("stop").addEventListener("click", () => running?.abort());
    find("new-conversation").addEventListener("click", () => choose(makeConversation()));
    find("import-conversation").addEventListener("click", () => find("import-file").click());
    find("import-file").addEventListener("change", (event) => importFile(event.target.files[0]));
    find("export-conversation").addEventListener("click", () =>
        save("conversation.json", "application/json", JSON.stringify(current, null, 1)));
    find("show-code").addEventListener("click", () => {
        try {
            showCode({ ...requestFields(), messages: requestMessages(current) });
        } catch (failure) {
            say(failure.message);
        }
    });
}

export async function startChat() {
    listen();
    try {
        conversations = await loadConversations();
    } catch (failure) {
        say(`conversations cannot be stored here: ${failure.message}`);
    }
    choose(conversations[0] ?? current);
}
