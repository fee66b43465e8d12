// A model's text as sanitized HTML: markdown with code, tables and maths. The text is hostile: what marked makes of it goes
// through DOMPurify, and the Content-Security-Policy of the page loads nothing from elsewhere.
import { DOMPurify, Marked, hljs, temml } from "./libraries.js";
import { element } from "./elements.js";

const MAX_BYTES = 200000; // longer text is shown as it is: rendering it again for every chunk would block the page

const maths = {
    name: "maths",
    level: "inline",
    start: (source) => source.search(/\$|\\[([]/),
    tokenizer(source) {
        const match =
            /^\$\$([^$]{1,5000}?)\$\$/.exec(source) ??
            /^\\\[([\s\S]{1,5000}?)\\\]/.exec(source) ??
            /^\\\(([\s\S]{1,2000}?)\\\)/.exec(source) ??
            /^\$(?=\S)([^$\n]{1,500}?\S|\S)\$(?!\d)/.exec(source);
        if (!match)
            return undefined;
        return { type: "maths", raw: match[0], formula: match[1], display: /^(\$\$|\\\[)/.test(match[0]) };
    },
    // The page's Content-Security-Policy allows no style attributes.
    renderer: (token) => temml.renderToString(token.formula, { displayMode: token.display, throwOnError: false, trust: false })
        .replace(/ style="[^"]*"/g, ""),
};

function escaped(text) {
    return text.replace(/[&<>"]/g, (mark) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[mark]);
}

// HTML in the text is shown, not interpreted.
const marked = new Marked({ gfm: true, breaks: true, extensions: [maths], renderer: { html: ({ text }) => escaped(text) } });

// Of classes, only the language of a code block passes: it must not look like a part of the page.
DOMPurify.addHook("uponSanitizeAttribute", (node, attribute) => {
    if (attribute.attrName === "class" && !/^language-[\w+#-]{1,30}$/.test(attribute.attrValue))
        attribute.keepAttr = false;
});

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
    if (node.tagName === "A") {
        node.setAttribute("target", "_blank");
        node.setAttribute("rel", "noopener noreferrer");
    }
});

function colour(block) {
    const language = /language-(\S+)/.exec(block.className)?.[1];
    if (language && hljs.getLanguage(language) && block.textContent.length < 50000)
        block.innerHTML = hljs.highlight(block.textContent, { language, ignoreIllegals: true }).value;
    block.parentElement.tabIndex = 0; // a wide block scrolls; the keyboard must reach it
}

// Replaces the contents of `target`.
export function renderMarkdown(target, text) {
    if (text.length > MAX_BYTES) {
        target.replaceChildren(element("pre", { tabindex: "0" }, text));
        return;
    }
    const fragment = DOMPurify.sanitize(marked.parse(text), {
        RETURN_DOM_FRAGMENT: true,
        FORBID_TAGS: ["style", "form", "input", "button", "textarea", "select", "img", "video", "audio", "iframe", "svg"],
        FORBID_ATTR: ["style", "id", "name"],
        ADD_ATTR: ["target"],
        ALLOW_DATA_ATTR: false,
    });
    target.replaceChildren(fragment);
    for (const table of target.querySelectorAll("table"))
        table.replaceWith(element("div", { class: "scroll", tabindex: "0" }, table.cloneNode(true)));
    for (const block of target.querySelectorAll("pre > code"))
        colour(block);
}
