// The settings of requests: one table of fields, the form made of it, and the part of a request's body that it gives. They are
// kept in the browser's local storage. An empty field is not sent, so the server's or the model's default counts.
import { element, find } from "./elements.js";

const KEY = "shoal-settings";

// name: of the body's field; kind: how it is entered and sent; more: behind "More fields"
const FIELDS = [
    { name: "model", label: "Model", kind: "model" },
    { name: "compare", label: "Compare with (several models side by side)", kind: "models" },
    { name: "system", label: "System prompt", kind: "text" },
    { name: "max_tokens", label: "Maximum tokens", kind: "number", step: 1, min: 1 },
    { name: "temperature", label: "Temperature", kind: "number", step: 0.05, min: 0 },
    { name: "top_p", label: "Top p", kind: "number", step: 0.01, min: 0, max: 1 },
    { name: "top_k", label: "Top k", kind: "number", step: 1, min: 0 },
    { name: "min_p", label: "Min p", kind: "number", step: 0.01, min: 0, max: 1 },
    { name: "seed", label: "Seed", kind: "number", step: 1 },
    { name: "repetition_penalty", label: "Repetition penalty", kind: "number", step: 0.05, min: 0 },
    { name: "presence_penalty", label: "Presence penalty", kind: "number", step: 0.1, min: -2, max: 2 },
    { name: "frequency_penalty", label: "Frequency penalty", kind: "number", step: 0.1, min: -2, max: 2 },
    { name: "stop", label: "Stop strings, one a line", kind: "lines" },
    { name: "enable_thinking", label: "Thinking", kind: "choice", choices: { "": "default", true: "on", false: "off" } },
    { name: "logprobs", label: "Show probabilities", kind: "flag" },
    { name: "response_format", label: "response_format (JSON)", kind: "json" },
    { name: "tools", label: "tools (JSON)", kind: "json" },
    { name: "typical_p", label: "Typical p", kind: "number", step: 0.01, min: 0, max: 1, more: true },
    { name: "top_n_sigma", label: "Top n sigma", kind: "number", step: 0.1, more: true },
    { name: "xtc_probability", label: "XTC probability", kind: "number", step: 0.01, min: 0, max: 1, more: true },
    { name: "xtc_threshold", label: "XTC threshold", kind: "number", step: 0.01, min: 0, max: 1, more: true },
    { name: "dry_multiplier", label: "DRY multiplier", kind: "number", step: 0.05, min: 0, more: true },
    { name: "dry_base", label: "DRY base", kind: "number", step: 0.05, min: 1, more: true },
    { name: "dry_allowed_length", label: "DRY allowed length", kind: "number", step: 1, min: 1, more: true },
    { name: "dynatemp_range", label: "Dynamic temperature: range", kind: "number", step: 0.05, min: 0, more: true },
    { name: "dynatemp_exponent", label: "Dynamic temperature: exponent", kind: "number", step: 0.05, min: 0, more: true },
    { name: "mirostat", label: "Mirostat", kind: "number", step: 1, min: 0, max: 2, more: true },
    { name: "mirostat_tau", label: "Mirostat tau", kind: "number", step: 0.1, min: 0, more: true },
    { name: "mirostat_eta", label: "Mirostat eta", kind: "number", step: 0.01, min: 0, max: 1, more: true },
    { name: "repetition_context_size", label: "Tokens that the repetition penalty sees", kind: "number", step: 1, min: 0, more: true },
    { name: "min_tokens", label: "Minimum tokens", kind: "number", step: 1, min: 0, more: true },
    { name: "thinking_budget", label: "Thinking budget, tokens", kind: "number", step: 1, min: 0, more: true },
    { name: "ignore_eos", label: "Go on after the end", kind: "flag", more: true },
    { name: "logit_bias", label: "logit_bias (JSON)", kind: "json", more: true },
    { name: "other", label: "Any other fields (a JSON object)", kind: "json", more: true },
];

function load() {
    try {
        return JSON.parse(localStorage.getItem(KEY)) ?? {};
    } catch {
        return {};
    }
}

const values = load();

function set(name, value) {
    if (value === "" || value === false || value.length === 0)
        delete values[name];
    else
        values[name] = value;
    localStorage.setItem(KEY, JSON.stringify(values));
}

function makeInput(field) {
    const id = `setting-${field.name}`;
    const value = values[field.name] ?? "";
    const onchange = (event) => set(field.name, field.kind === "flag" ? event.target.checked : event.target.value);
    if (field.kind === "flag") {
        const box = element("input", { id, type: "checkbox", onchange });
        box.checked = value === true;
        return box;
    }
    if (["text", "lines", "json"].includes(field.kind)) {
        const area = element("textarea", { id, rows: 2, onchange });
        area.value = value;
        return area;
    }
    if (field.kind === "number")
        return element("input", { id, type: "number", value, step: field.step, min: field.min, max: field.max, onchange });
    if (field.kind === "models")
        return element("select", { id, multiple: true, size: 3, onchange: (event) =>
            set(field.name, [...event.target.selectedOptions].map((option) => option.value)) });
    const select = element("select", { id, onchange });
    for (const [key, label] of Object.entries(field.choices ?? {}))
        select.append(element("option", { value: key }, label));
    select.value = value;
    return select;
}

export function showSettings() {
    const more = element("details", {}, element("summary", {}, "More fields"));
    for (const field of FIELDS)
        (field.more ? more : find("settings")).append(element("label", { for: `setting-${field.name}` }, field.label), makeInput(field));
    find("settings").append(more);
    find("settings").addEventListener("submit", (event) => event.preventDefault());
}

export function showModels(names) {
    const select = find("setting-model");
    select.replaceChildren(...names.map((name) => element("option", { value: name }, name)));
    select.value = names.includes(values.model) ? values.model : (names[0] ?? "");
    const compare = find("setting-compare");
    compare.replaceChildren(...names.map((name) => element("option", { value: name }, name)));
    for (const option of compare.options)
        option.selected = Array.isArray(values.compare) && values.compare.includes(option.value);
    compare.hidden = compare.previousElementSibling.hidden = names.length < 2;
}

// The models that answer a question: the chosen one, and those to compare it with.
export function answeringModels() {
    const chosen = find("setting-model").value;
    const others = [...find("setting-compare").selectedOptions].map((option) => option.value);
    return [chosen, ...others.filter((name) => name !== chosen)];
}

export function systemPrompt() {
    return values.system ?? "";
}

// The fields of a request's body. Throws if a JSON field is not JSON.
export function requestFields() {
    const body = { model: find("setting-model").value };
    for (const field of FIELDS) {
        const value = values[field.name];
        if (value === undefined || ["model", "compare", "system"].includes(field.name))
            continue;
        if (field.kind === "number")
            body[field.name] = Number(value);
        else if (field.kind === "lines")
            body[field.name] = value.split("\n").filter((line) => line !== "");
        else if (field.kind === "flag")
            body[field.name] = true;
        else if (field.kind === "choice")
            body[field.name] = value === "true";
        else if (field.name === "other")
            Object.assign(body, parse(field, value));
        else
            body[field.name] = parse(field, value);
    }
    if (body.logprobs)
        body.top_logprobs = 5;
    return body;
}

function parse(field, value) {
    try {
        return JSON.parse(value);
    } catch (failure) {
        throw new Error(`${field.label}: ${failure.message}`);
    }
}
