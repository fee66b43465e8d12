// What the official npm client sees of a server: prints one JSON object for node_client_test.py to judge.
// usage: node openai_client.mjs BASE_URL MODEL
import OpenAI from "openai";

const [baseURL, model] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: "unused", maxRetries: 0 });
const request = {
  model,
  messages: [{ role: "user", content: "What is the capital of France? Answer in one word." }],
  temperature: 0,
  max_tokens: 24,
};

const whole = await client.chat.completions.create(request);

let streamed = "";
let usage = null;
const stream = await client.chat.completions.create({
  ...request,
  stream: true,
  stream_options: { include_usage: true },
});
for await (const chunk of stream) {
  streamed += chunk.choices[0]?.delta?.content ?? "";
  usage = chunk.usage ?? usage;
}

async function refusal(fields, names) {
  try {
    await client.chat.completions.create({ ...request, ...fields });
    return null;
  } catch (error) {
    return Object.fromEntries(names.map((name) => [name, error[name]]));
  }
}

const aborted = await client.chat.completions.create({ ...request, max_tokens: 4000, stream: true });
for await (const chunk of aborted) {
  if (chunk.choices[0]?.delta?.content) break; // leaving the loop ends the connection
}

console.log(
  JSON.stringify({
    whole: whole.choices[0].message.content,
    streamed,
    usage,
    models: (await client.models.list()).data.map((entry) => entry.id),
    refused: await refusal({ temperature: 9 }, ["status", "param", "type"]),
    unknown: await refusal({ model: "unknown" }, ["status", "code"]),
  }),
);
