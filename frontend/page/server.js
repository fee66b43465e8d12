// Requests to the server that served this page, with the API key of this tab.

const KEY = "shoal-api-key";

export function apiKey() {
    return sessionStorage.getItem(KEY) ?? "";
}

export function setApiKey(key) {
    if (key)
        sessionStorage.setItem(KEY, key);
    else
        sessionStorage.removeItem(KEY);
}

export function address(path) {
    return new URL(path, document.baseURI).href;
}

// A refused request: `status` 0 if the server was not reached.
export class ServerError extends Error {
    constructor(status, message) {
        super(message);
        this.status = status;
    }
}

async function send(path, options) {
    const headers = { ...options.headers };
    if (apiKey())
        headers.authorization = `Bearer ${apiKey()}`;
    let reply;
    try {
        reply = await fetch(address(path), { ...options, headers });
    } catch (failure) {
        if (failure.name === "AbortError")
            throw failure;
        throw new ServerError(0, "The server cannot be reached.");
    }
    if (reply.ok)
        return reply;
    const text = await reply.text();
    let message = text.slice(0, 500) || `status ${reply.status}`;
    try {
        message = JSON.parse(text).error.message;
    } catch {
        // not JSON: the text itself
    }
    throw new ServerError(reply.status, message);
}

export async function getJson(path, signal) {
    return (await send(path, { signal })).json();
}

// Calls `handle(event, data)` for each server-sent event of a body until it ends.
async function readEvents(body, handle) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
        const { done, value } = await reader.read();
        if (done)
            return;
        rest += value;
        const blocks = rest.split("\n\n");
        rest = blocks.pop();
        for (const block of blocks) {
            let event = "message";
            const data = [];
            for (const line of block.split("\n")) {
                if (line.startsWith("event:"))
                    event = line.slice(6).trim();
                else if (line.startsWith("data:"))
                    data.push(line.slice(5).replace(/^ /, ""));
            }
            if (data.length > 0)
                handle(event, data.join("\n"));
        }
    }
}

export async function streamGet(path, signal, handle) {
    const reply = await send(path, { signal });
    await readEvents(reply.body, (event, data) => handle(event, JSON.parse(data)));
}

// Streams a chat completion: `handle(chunk)` for each chunk. Errors inside the stream are thrown.
export async function streamChat(body, signal, handle) {
    const reply = await send("v1/chat/completions", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
        signal,
    });
    await readEvents(reply.body, (event, data) => {
        if (data === "[DONE]")
            return;
        const chunk = JSON.parse(data);
        if (chunk.error)
            throw new ServerError(chunk.error.code ?? 500, chunk.error.message);
        handle(chunk);
    });
}
