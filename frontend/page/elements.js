// Builds DOM elements. Text always becomes text nodes, never markup.

export function find(id) {
    return document.getElementById(id);
}

// element("button", {type: "button", onclick: f}, "Text", child): properties that start with "on" are listeners.
export function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
        if (key.startsWith("on"))
            made.addEventListener(key.slice(2), value);
        else if (value === true)
            made.setAttribute(key, "");
        else if (value !== false && value !== null && value !== undefined)
            made.setAttribute(key, value);
    }
    made.append(...children.filter((child) => child !== null && child !== undefined));
    return made;
}

export function button(text, onclick, attributes = {}) {
    return element("button", { type: "button", onclick, ...attributes }, text);
}

// An attached image, video or sound, of a data: URL.
export function preview(url, label) {
    if (url.startsWith("data:audio/"))
        return element("audio", { src: url, controls: true, "aria-label": label });
    return url.startsWith("data:video/") ? element("video", { src: url, controls: true, muted: true, "aria-label": label })
        : element("img", { src: url, alt: label });
}

// Offers `text` as a file to save.
export function save(name, type, text) {
    const address = URL.createObjectURL(new Blob([text], { type }));
    element("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
}

// Copies and says so on the button for a second.
export async function copy(text, source) {
    const before = source.textContent;
    try {
        await navigator.clipboard.writeText(text);
        source.textContent = "Copied";
    } catch {
        source.textContent = "Not allowed";
    }
    setTimeout(() => (source.textContent = before), 1000);
}
