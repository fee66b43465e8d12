// The next request as a program: curl, Python and JavaScript, with the official clients.
import { address } from "./server.js";
import { button, copy, element, find } from "./elements.js";

function shellQuoted(text) {
    return `'${text.replaceAll("'", "'\\''")}'`;
}

// JSON as a Python literal: only true, false and null differ, outside of strings.
function pythonLiteral(value, depth = 1) {
    const indent = "    ".repeat(depth);
    if (value === null || typeof value === "boolean")
        return { null: "None", true: "True", false: "False" }[String(value)];
    if (Array.isArray(value))
        return `[${value.map((one) => pythonLiteral(one, depth)).join(", ")}]`;
    if (typeof value === "object") {
        const members = Object.entries(value).map(([key, one]) => `${JSON.stringify(key)}: ${pythonLiteral(one, depth + 1)}`);
        return members.join("").length < 80 ? `{${members.join(", ")}}` : `{\n${indent}    ${members.join(`,\n${indent}    `)}\n${indent}}`;
    }
    return JSON.stringify(value);
}

const OPENAI_FIELDS = ["model", "messages", "max_tokens", "temperature", "top_p", "seed", "stop", "presence_penalty",
    "frequency_penalty", "logprobs", "top_logprobs", "response_format", "tools"];

export function programs(body) {
    const base = address("v1");
    const known = Object.entries(body).filter(([name]) => OPENAI_FIELDS.includes(name));
    const others = Object.fromEntries(Object.entries(body).filter(([name]) => !OPENAI_FIELDS.includes(name)));
    const extra = Object.keys(others).length > 0 ? [["extra_body", others]] : [];
    const python = [...known, ...extra].map(([name, value]) => `    ${name}=${pythonLiteral(value)},`).join("\n");
    const json = JSON.stringify(body, null, 2);
    return {
        curl: `curl ${base}/chat/completions \\\n  -H "Authorization: Bearer $SHOAL_API_KEY" -H "Content-Type: application/json" \\\n  -d ${shellQuoted(json)}`,
        Python: `import os\nimport openai\n\nclient = openai.OpenAI(base_url=${JSON.stringify(base)}, api_key=os.environ.get("SHOAL_API_KEY", "none"))\n` +
            `reply = client.chat.completions.create(\n${python}\n)\nprint(reply.choices[0].message.content)`,
        JavaScript: `import OpenAI from "openai";\n\nconst client = new OpenAI({ baseURL: ${JSON.stringify(base)}, apiKey: process.env.SHOAL_API_KEY ?? "none" });\n` +
            `const reply = await client.chat.completions.create(${json});\nconsole.log(reply.choices[0].message.content);`,
    };
}

export function showCode(body) {
    find("code").replaceChildren();
    for (const [name, text] of Object.entries(programs(body)))
        find("code").append(element("h3", {}, name), button("Copy", (event) => copy(text, event.target), { "aria-label": `Copy ${name}` }),
            element("pre", { tabindex: "0" }, text));
    find("code-dialog").showModal();
}
