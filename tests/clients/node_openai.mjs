// npm openai: chat, streams, tools and parsed objects.
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { MODEL, QUESTION, Shape, TOKENS, URL, check, run } from "./node_calls.mjs";
import { z } from "zod";

const client = new OpenAI({ baseURL: URL + "/v1", apiKey: "unused", maxRetries: 0, timeout: 600000 });
const ask = { model: MODEL, messages: [{ role: "user", content: QUESTION }] };
const tool = { type: "function", function: { name: "put_shape", description: "Stores a shape.", parameters: z.toJSONSchema(Shape) } };

async function chat() {
    check((await client.chat.completions.create({ ...ask, max_tokens: 16 })).choices[0].message.content, "no content");
}
async function stream() {
    let text = "", finish = null;
    for await (const chunk of await client.chat.completions.create({ ...ask, max_tokens: 16, stream: true })) {
        text += chunk.choices[0]?.delta?.content ?? "";
        finish = chunk.choices[0]?.finish_reason ?? finish;
    }
    check(text && finish, "no text");
}
async function tools() {
    const fields = { ...ask, tools: [tool], max_tokens: TOKENS, parallel_tool_calls: false };
    const first = (await client.chat.completions.create({ ...fields, tool_choice: "required" })).choices[0].message;
    Shape.parse(JSON.parse(first.tool_calls[0].function.arguments));
    const messages = [...ask.messages, first, { role: "tool", tool_call_id: first.tool_calls[0].id, content: "stored" }];
    check((await client.chat.completions.create({ ...fields, messages, tool_choice: "none", max_tokens: 16 })).choices[0].finish_reason, "no answer");
}
async function parse() {
    const made = await client.chat.completions.parse({ ...ask, max_tokens: TOKENS, response_format: zodResponseFormat(Shape, "shape") });
    Shape.parse(made.choices[0].message.parsed);
}
async function responses() {
    const made = await client.responses.parse({ model: MODEL, input: QUESTION, max_output_tokens: TOKENS, text: { format: zodTextFormat(Shape, "shape") } });
    Shape.parse(made.output_parsed);
}

await run({ chat: [chat, 5], stream: [stream, 5], tools: [tools, 20], "structured: chat.completions.parse": [parse, null],
            "structured: responses.parse": [responses, 20] });
