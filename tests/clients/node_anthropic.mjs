// @anthropic-ai/sdk: messages, streams, tools and parsed objects.
import Anthropic from "@anthropic-ai/sdk";
import { zodOutputFormat } from "@anthropic-ai/sdk/helpers/zod";
import { z } from "zod";
import { MODEL, QUESTION, Shape, TOKENS, URL, check, run } from "./node_calls.mjs";

const client = new Anthropic({ baseURL: URL, apiKey: "unused", maxRetries: 0, timeout: 600000 });
const ask = { model: MODEL, messages: [{ role: "user", content: QUESTION }], thinking: { type: "disabled" } };
const tool = { name: "put_shape", description: "Stores a shape.", input_schema: z.toJSONSchema(Shape) };

async function chat() {
    check((await client.messages.create({ ...ask, max_tokens: 16 })).content[0].text, "no text");
}
async function stream() {
    check((await client.messages.stream({ ...ask, max_tokens: 16 }).finalMessage()).stop_reason, "no end");
}
async function tools() {
    const fields = { ...ask, tools: [tool], max_tokens: TOKENS };
    const first = await client.messages.create({ ...fields, tool_choice: { type: "any", disable_parallel_tool_use: true } });
    const use = first.content.find((block) => block.type === "tool_use");
    Shape.parse(use.input);
    const messages = [...ask.messages, { role: "assistant", content: first.content },
                      { role: "user", content: [{ type: "tool_result", tool_use_id: use.id, content: "stored" }] }];
    check((await client.messages.create({ ...fields, messages, max_tokens: 16 })).stop_reason, "no answer");
}
async function parse() {
    const made = await client.messages.parse({ ...ask, max_tokens: TOKENS, output_config: { format: zodOutputFormat(Shape) } });
    Shape.parse(made.parsed_output);
}

await run({ chat: [chat, 5], stream: [stream, 5], tools: [tools, 20], "structured: messages.parse": [parse, null] });
