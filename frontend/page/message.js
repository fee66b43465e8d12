// One message as a DOM element, and its updates while it streams.
import { button, copy, element, preview } from "./elements.js";
import { renderMarkdown } from "./markdown.js";
import { branch, siblings } from "./conversation.js";

const HEAT_CLASSES = 5; // heat-0 (certain) to heat-4 in page.css

function heatClass(logprob) {
    return `heat-${Math.min(HEAT_CLASSES - 1, Math.floor(-logprob))}`;
}

function heatMap(tokens) {
    const map = element("p", { class: "heat" });
    for (const token of tokens) {
        const others = (token.top ?? []).map((one) => `${JSON.stringify(one.token)} ${(100 * Math.exp(one.logprob)).toFixed(1)} %`);
        const title = `${(100 * Math.exp(token.logprob)).toFixed(1)} %\n${others.join("\n")}`;
        map.append(element("span", { class: heatClass(token.logprob), title }, token.token));
    }
    return map;
}

function figuresText(figures) {
    const parts = [];
    if (figures.prompt_tokens !== undefined)
        parts.push(`${figures.prompt_tokens} prompt tokens (${figures.cached_tokens ?? 0} cached)`);
    if (figures.completion_tokens !== undefined)
        parts.push(`${figures.completion_tokens} tokens`);
    if (figures.first_ms !== undefined)
        parts.push(`first after ${Math.round(figures.first_ms)} ms`);
    if (figures.rate !== undefined)
        parts.push(`${figures.rate.toFixed(1)} tokens/s`);
    if (figures.finish_reason)
        parts.push(figures.finish_reason);
    return parts.join(" · ");
}

// {element, update(): shows what the message has now}
export function makeMessageView(conversation, message, actions) {
    const model = element("p", { class: "model", hidden: !message.model }, message.model ?? "");
    const reasoning = element("details", { class: "reasoning", hidden: true }, element("summary", {}, "Reasoning"), element("div"));
    const text = element("div", { class: "text" });
    const tools = element("div", { class: "tools" });
    const heat = element("div");
    const figures = element("p", { class: "figures" });
    const failure = element("p", { class: "failure", role: "alert", hidden: true });
    const images = element("div", { class: "images" });
    const bar = element("div", { class: "row actions" });
    const view = element("article", { class: message.role, "aria-label": message.role === "user" ? "You" : "Model" },
        model, images, reasoning, text, tools, heat, failure, figures, bar);

    function update() {
        const shownText = message.tokens?.length > 0 && !message.streaming ? "" : message.text;
        if (message.role === "user")
            text.replaceChildren(element("p", { class: "plain" }, shownText));
        else
            renderMarkdown(text, shownText);
        reasoning.hidden = !message.reasoning;
        if (message.reasoning)
            renderMarkdown(reasoning.lastChild, message.reasoning);
        tools.replaceChildren(...(message.tools ?? []).map((tool) =>
            element("pre", { tabindex: "0", "aria-label": "Tool call" }, `${tool.name}(${tool.arguments})`)));
        heat.replaceChildren(...(message.tokens?.length > 0 && !message.streaming ? [heatMap(message.tokens)] : []));
        figures.textContent = message.figures ? figuresText(message.figures) : "";
        failure.hidden = !message.error;
        failure.textContent = message.error ?? "";
        images.replaceChildren(...message.images.map((url, index) => preview(url, `Attachment ${index + 1}`)));
    }

    function updateBar() {
        const all = siblings(conversation, message);
        const at = all.indexOf(message);
        bar.replaceChildren();
        if (all.length > 1) {
            bar.append(button("‹", () => actions.show(all[at - 1]), { "aria-label": "Earlier branch", disabled: at === 0 }),
                element("span", {}, `${at + 1} of ${all.length}`),
                button("›", () => actions.show(all[at + 1]), { "aria-label": "Later branch", disabled: at === all.length - 1 }));
        }
        bar.append(button("Copy", (event) => copy(message.text, event.target)));
        if (message.role === "user")
            bar.append(button("Edit", () => actions.edit(message)));
        else
            bar.append(button("Retry", () => actions.retry(message)));
        if (message.group && !branch(conversation).includes(message))
            bar.append(button("Continue with this", () => actions.show(message), { "aria-label": `Continue with this answer, of ${message.model}` }));
    }

    update();
    updateBar();
    return { element: view, update };
}
