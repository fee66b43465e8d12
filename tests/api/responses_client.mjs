// What the official npm client sees of the Responses API: prints one JSON object for responses_test.py to judge.
// usage: node responses_client.mjs BASE_URL MODEL
import OpenAI from "openai";

const [baseURL, model] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: "unused", maxRetries: 0 });
const request = {
  model,
  input: "What is the capital of France? Answer in one word.",
  temperature: 0,
  max_output_tokens: 24,
};

const whole = await client.responses.create(request);

let streamed = "";
const numbers = [];
const stream = client.responses.stream(request);
for await (const event of stream) {
  numbers.push(event.sequence_number);
  if (event.type === "response.output_text.delta") streamed += event.delta;
}
const final = await stream.finalResponse();

const next = await client.responses.create({ ...request, input: "Why?", previous_response_id: whole.id });
const items = [];
for await (const item of client.responses.inputItems.list(next.id, { order: "asc" })) items.push(item.role);

const running = await client.responses.create({ ...request, ignore_eos: true, max_output_tokens: 4000, background: true });
const cancelled = await client.responses.cancel(running.id);

async function refusal(call, names) {
  try {
    await call();
    return null;
  } catch (error) {
    return Object.fromEntries(names.map((name) => [name, error[name]]));
  }
}

await client.responses.delete(whole.id);
console.log(
  JSON.stringify({
    whole: whole.output_text,
    streamed,
    final: final.output[0].content[0].text,
    numbers,
    items,
    cancelled: cancelled.status,
    counted: (await client.responses.inputTokens.count({ model, input: "Hello." })).input_tokens,
    deleted: (await refusal(() => client.responses.retrieve(whole.id), ["status"])).status,
    refused: await refusal(() => client.responses.create({ ...request, conversation: "c" }), ["status", "param"]),
  }),
);
