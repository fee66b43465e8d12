// ai (the AI SDK) with its providers openai, openai-compatible and anthropic: text, streams, tools and objects, without its retries.
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, streamText, tool } from "ai";
import { MODEL, QUESTION, Shape, TOKENS, URL, check, run } from "./node_calls.mjs";

const openai = createOpenAI({ baseURL: URL + "/v1", apiKey: "unused" });
const models = {
    "openai": openai(MODEL),
    "openai chat": openai.chat(MODEL),
    "openai-compatible": createOpenAICompatible({ name: "shoal", baseURL: URL + "/v1", supportsStructuredOutputs: true })(MODEL),
    "anthropic": createAnthropic({ baseURL: URL + "/v1", apiKey: "unused" })(MODEL),
};
const ask = { prompt: QUESTION, maxRetries: 0 };

function featuresOf(name, model) {
    return {
        [`chat: ${name}`]: [async () => check((await generateText({ ...ask, model, maxOutputTokens: 16 })).finishReason, "no end"), 5],
        [`stream: ${name}`]: [async () => {
            let parts = 0;
            for await (const part of streamText({ ...ask, model, maxOutputTokens: 16 }).fullStream) {
                check(part.type !== "error", String(part.error));
                parts++;
            }
            check(parts > 2, "no parts");
        }, 5],
        [`tools: ${name}`]: [async () => {
            const made = await generateText({ ...ask, model, maxOutputTokens: TOKENS, toolChoice: "required", tools: {
                put_shape: tool({ description: "Stores a shape.", inputSchema: Shape }) } });
            check(made.toolCalls.length > 0, "no call");
            Shape.parse(made.toolCalls[0].input);
        }, 20],
        [`structured: generateObject, ${name}`]: [async () => {
            Shape.parse((await generateObject({ ...ask, model, schema: Shape, maxOutputTokens: TOKENS })).object);
        }, name === "openai" || name === "openai-compatible" ? null : 20],
    };
}

await run(Object.assign({}, ...Object.entries(models).map(([name, model]) => featuresOf(name, model))));
