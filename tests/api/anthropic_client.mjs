// What Anthropic's official npm client sees of a server: prints one JSON object for node_client_test.py to judge.
// usage: node anthropic_client.mjs BASE_URL MODEL
import Anthropic from "@anthropic-ai/sdk";

const [baseURL, model] = process.argv.slice(2);
const client = new Anthropic({ baseURL, apiKey: "unused", maxRetries: 0 });
const messages = [{ role: "user", content: "What is the capital of France? Answer in one word." }];
const request = { model, messages, max_tokens: 24, temperature: 0 };

const whole = await client.messages.create(request);

let streamed = "";
const stream = client.messages.stream(request).on("text", (text) => (streamed += text));
const final = await stream.finalMessage();

async function refusal(fields) {
  try {
    await client.messages.create({ ...request, ...fields });
    return null;
  } catch (error) {
    return { class: error.constructor.name, status: error.status, type: error.error.error.type };
  }
}

const aborted = await client.messages.create({ ...request, max_tokens: 4000, stream: true });
for await (const event of aborted) {
  if (event.type === "content_block_delta") break; // leaving the loop ends the connection
}

console.log(
  JSON.stringify({
    whole: whole.content[0].text,
    stop_reason: whole.stop_reason,
    streamed,
    final: final.content[0].text,
    usage: final.usage,
    counted: (await client.messages.countTokens({ model, messages })).input_tokens,
    refused: await refusal({ temperature: 9 }),
    unknown: await refusal({ model: "unknown" }),
  }),
);
