// One scenario of the page in headless Chromium; prints a JSON object for page_test.py to judge.
// usage: node page_browser.mjs SCENARIO URL CHROMIUM [ARGUMENT]
import fs from "node:fs";
import puppeteer from "puppeteer-core";

const [scenario, url, executablePath, argument] = process.argv.slice(2);
const PATIENCE_MS = 240000;
const browser = await puppeteer.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--ignore-certificate-errors"], headless: true, protocolTimeout: PATIENCE_MS });
const page = await browser.newPage();
page.setDefaultTimeout(PATIENCE_MS);
await page.setViewport({ width: 1300, height: 850 });
const requested = new Set(); // origins
const failures = [];
page.on("request", (request) => {
  if (!/^(data|blob):/.test(request.url()))
    requested.add(new URL(request.url()).origin);
});
page.on("pageerror", (error) => failures.push(error.message));
page.on("dialog", (dialog) => {
  failures.push(`a dialog: ${dialog.message()}`);
  dialog.dismiss();
});
// Refused requests are logged as errors of the console; the page shows them itself.
page.on("console", (message) => {
  if (message.type() === "error" && !message.text().startsWith("Failed to load resource"))
    failures.push(message.text());
});

const text = (selector) => page.$eval(selector, (found) => found.textContent);
const lastAnswer = () => page.evaluate(() => [...document.querySelectorAll("article.assistant .text")].pop()?.textContent.trim() ?? "");

async function open(view = "") {
  await page.goto(`${url}/${view}`);
  await page.waitForFunction(() => document.getElementById("server-state").textContent === "ready");
}

async function ended() {
  await page.waitForFunction(() => document.getElementById("stop").disabled && document.querySelector("article.assistant .figures")?.textContent);
}

async function send(prompt) {
  await page.type("#prompt", prompt);
  await page.click("#send");
}

async function set(name, value) {
  await page.$eval(`#setting-${name}`, (input, given) => {
    input.value = given;
    input.dispatchEvent(new Event("change"));
  }, value);
}

// What axe-core finds in light and dark, on a wide screen and on a phone.
async function violations() {
  // Inside the page's world by the debugger, so that its Content-Security-Policy stays as it is.
  await page.evaluate(fs.readFileSync("node_modules/axe-core/axe.min.js", "utf8"));
  const found = [];
  for (const width of [1300, 390]) {
    for (const value of ["light", "dark"]) {
      await page.setViewport({ width, height: 850 });
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value }]);
      const result = await page.evaluate(() => globalThis.axe.run(document));
      for (const one of result.violations)
        found.push(`${width} ${value} ${one.id}: ${one.nodes.map((node) => node.target.join(" ")).join(", ")}`);
    }
  }
  await page.setViewport({ width: 1300, height: 850 });
  return found;
}

const scenarios = {
  async chat() {
    await open();
    await (await page.$("#attach-file")).uploadFile(argument);
    await page.waitForSelector("#attachments img");
    await set("temperature", "0");
    await send("What do you see?");
    await ended();
    const answer = await lastAnswer();
    const accessibility = await violations();
    await page.reload();
    await page.waitForSelector("article.assistant");
    const again = await lastAnswer();
    const image = await page.$eval("article.user img", (found) => found.naturalWidth > 0);
    await page.click("article.assistant .actions button:last-child"); // Retry
    await page.waitForFunction(() => document.querySelector("article.assistant .actions").textContent.includes("2 of 2"));
    await ended();
    await page.click("#show-code");
    const code = await text("#code");
    return { answer, again, image, code, accessibility };
  },
  async compare() {
    await open();
    await page.select("#setting-compare", ...argument.split(","));
    await set("temperature", "0");
    await set("max_tokens", "12");
    await send("Hello");
    await page.waitForFunction(() => document.getElementById("stop").disabled && document.querySelectorAll(".beside article .figures").length === 2 &&
      [...document.querySelectorAll(".beside article .figures")].every((one) => one.textContent));
    const answers = await page.$$eval(".beside article", (all) => all.map((one) => [one.querySelector(".model").textContent, one.querySelector(".text").textContent.trim()]));
    const tops = await page.$$eval(".beside article", (all) => all.map((one) => one.getBoundingClientRect().top));
    const accessibility = await violations();
    await page.click(".beside article:nth-child(2) .actions button:last-child"); // Continue with this
    await page.waitForFunction(() => document.querySelector(".beside article:nth-child(1)").textContent.includes("Continue with this"));
    const chosen = await page.$$eval(".beside article", (all) => all.filter((one) => !one.textContent.includes("Continue with this"))
      .map((one) => one.querySelector(".model").textContent));
    await page.reload();
    await page.waitForSelector(".beside article:nth-child(2)");
    await page.click("#show-code");
    return { answers, tops, accessibility, chosen, code: await text("#code") };
  },
  async video() {
    await open();
    await (await page.$("#attach-file")).uploadFile(argument);
    await page.waitForFunction(() => document.querySelector("#attachments video")?.readyState > 0); // it may be shown
    await set("max_tokens", "5");
    await send("What moves?");
    await ended();
    const accessibility = await violations();
    const failure = await page.$eval("article.assistant .failure", (found) => found.textContent);
    await page.reload();
    await page.waitForSelector("article.assistant");
    const wide = await page.$eval("article.user video", (found) => found.videoWidth);
    const figures = await page.$eval("article.assistant .figures", (found) => found.textContent);
    return { accessibility, failure, wide, figures };
  },
  async audio() {
    await open();
    await (await page.$("#attach-file")).uploadFile(argument);
    await page.waitForFunction(() => document.querySelector("#attachments audio")?.readyState > 0); // it may be played
    await set("max_tokens", "5");
    await send("What is said?");
    await ended();
    const accessibility = await violations();
    const failure = await page.$eval("article.assistant .failure", (found) => found.textContent);
    await page.reload();
    await page.waitForSelector("article.assistant");
    const seconds = await page.$eval("article.user audio", (found) => found.duration);
    return { accessibility, failure, seconds, figures: await text("article.assistant .figures") };
  },
  async content() { // of a server that says what is written
    await open();
    await send("Show everything.");
    await ended();
    const count = (selector) => page.$$eval(`article.assistant .text ${selector}`, (all) => all.length);
    const shown = { code: await count("pre code span[class]"), cells: await count("table td"), maths: await count("math") };
    const accessibility = await violations();
    // Edit the question: a second branch; then back to the first.
    await page.click("article.user .actions button:last-child");
    await page.$eval("#prompt", (area) => (area.value = ""));
    await send("Another question.");
    await ended();
    const second = await lastAnswer();
    const branches = await text("article.user .actions");
    await page.click("article.user .actions button:first-child");
    await page.waitForFunction(() => document.querySelector("article.user .text").textContent.includes("Show everything."));
    const first = await lastAnswer();
    // Export, forget, import.
    await page.evaluate(() => {
      const make = URL.createObjectURL;
      URL.createObjectURL = (blob) => {
        blob.text().then((words) => (globalThis.saved = words));
        return make.call(URL, blob);
      };
    });
    await page.click("#export-conversation");
    await page.waitForFunction(() => globalThis.saved);
    fs.writeFileSync(argument, await page.evaluate(() => globalThis.saved));
    await page.click("#conversation-list li button:last-child"); // Delete
    await page.waitForFunction(() => !document.querySelector("article"));
    await (await page.$("#import-file")).uploadFile(argument);
    await page.waitForSelector("article.assistant");
    const imported = await lastAnswer();
    return { shown, accessibility, first, second, branches, imported };
  },
  async attach() { // paste and drop
    await open();
    const bytes = [...fs.readFileSync(argument)];
    const counts = [];
    for (const [target, type, name] of [["#prompt", "paste", "clipboardData"], ["#chat", "drop", "dataTransfer"]]) {
      await page.evaluate((selector, kind, field, content) => {
        const carried = new DataTransfer();
        carried.items.add(new File([new Uint8Array(content)], "image.png", { type: "image/png" }));
        const event = kind === "paste" ? new ClipboardEvent(kind, { [field]: carried, bubbles: true, cancelable: true })
          : new DragEvent(kind, { [field]: carried, bubbles: true, cancelable: true });
        document.querySelector(selector).dispatchEvent(event);
      }, target, type, name, bytes);
      await page.waitForFunction((wanted) => document.querySelectorAll("#attachments img").length === wanted, {}, counts.length + 1);
      counts.push(await page.$$eval("#attachments img", (all) => all.length));
    }
    await page.click("#attachments button"); // Remove
    const left = await page.$$eval("#attachments img", (all) => all.length);
    return { counts, left };
  },
  async parts() { // of the demo model's answers: reasoning, probabilities, tool calls, an answer of a form
    const { story, prompt, tools, schema } = JSON.parse(argument);
    await open();
    await set("temperature", "0");
    await set("enable_thinking", "true");
    await page.click("#setting-logprobs");
    const toggle = () => page.$eval("#setting-ignore_eos", (box) => box.click());
    await set("max_tokens", "400"); // long enough for a rate
    await toggle();
    await send(story);
    await ended();
    await set("max_tokens", "");
    await toggle();
    const reasoning = await page.$eval("article.assistant details.reasoning", (found) => ({ hidden: found.hidden, open: found.open, text: found.lastChild.textContent }));
    const heat = await page.$$eval("article.assistant .heat span", (all) => all.map((one) => [one.textContent, one.title]));
    const figures = await text("article.assistant .figures");
    await page.click("#setting-logprobs");
    await set("enable_thinking", "false");
    await page.click("#new-conversation");
    await set("tools", JSON.stringify(tools));
    await send(prompt);
    await ended();
    const call = await text("article.assistant .tools pre");
    await set("tools", "");
    await page.click("#new-conversation");
    await set("response_format", JSON.stringify({ type: "json_schema", json_schema: { name: "answer", schema, strict: true } }));
    await send(prompt);
    await ended();
    return { reasoning, heat, figures, call, formed: await lastAnswer() };
  },
  async fields() { // every setting, as the program shows it
    await open();
    await page.evaluate(() => {
      for (const input of document.querySelectorAll("#settings input[type=number]")) {
        input.value = ["mirostat", "mirostat_tau", "mirostat_eta"].some((name) => input.id === `setting-${name}`) ? "" : "1";
        input.dispatchEvent(new Event("change"));
      }
    });
    await set("stop", "one\ntwo");
    await set("logit_bias", '{"5": -3}');
    await set("other", '{"n_probs": 0, "include_reasoning": true}');
    await page.$eval("#setting-ignore_eos", (box) => box.click());
    await set("system", "Be brief.");
    await page.type("#prompt", "Hello");
    await page.click("#send");
    await ended();
    await page.click("#show-code");
    const code = await text("#code pre");
    return { code, failure: await text("article.assistant .failure"), answer: await lastAnswer() };
  },
  async stop() {
    await open();
    await set("max_tokens", "4000");
    await set("temperature", "0");
    await send("Tell a very long story.");
    await page.waitForFunction(() => document.querySelector("article.assistant .text")?.textContent.length > 20);
    await page.click("#stop");
    await ended();
    return { answer: await lastAnswer() };
  },
  async key() {
    await page.goto(url);
    await page.waitForSelector("#key-dialog[open]");
    await page.type("#key", argument);
    await page.click("#key-dialog button[value=save]");
    await page.waitForFunction(() => document.getElementById("setting-model").options.length > 0);
    await set("max_tokens", "3");
    await send("Hello");
    await ended();
    return { answer: await lastAnswer() };
  },
  async hostile() {
    await open();
    await send("Say something hostile.");
    await ended();
    return await page.evaluate(async () => {
      const { renderMarkdown } = await import("/page/markdown.js");
      const long = document.createElement("div");
      for (const line of ["x", "*", "$x", "[a](", "| a ", "`"])
        renderMarkdown(long, line.repeat(1e6 / line.length));
      const shown = document.querySelector("article.assistant");
      const count = (selector) => shown.querySelectorAll(selector).length;
      return {
        ran: globalThis.hostile ?? null,
        scripts: count("script, iframe, img, form, input, style, [onclick], [onerror], [style]"),
        links: [...shown.querySelectorAll("a")].map((link) => [link.getAttribute("href"), link.rel]),
        text: shown.querySelector(".text").textContent,
        longCharacters: long.textContent.length,
      };
    });
  },
  async dashboard() {
    await open("#dashboard");
    await page.waitForFunction(() => document.getElementById("workers").textContent.includes("ready"));
    const accessibility = await violations();
    console.log("watching"); // the test kills the worker now
    await page.waitForFunction(() => document.querySelector("#workers tr td:nth-child(8)")?.textContent === "1");
    await page.waitForFunction(() => document.querySelector(".kv-map .used") && document.getElementById("step-strips").textContent.includes("decode rows"));
    const strip = await page.$eval("#step-strips canvas", (canvas) => {
      const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
      return pixels.some((value) => value > 0);
    });
    const cells = await page.$$eval(".kv-map i", (all) => all.length);
    return { accessibility, workers: await text("#workers"), models: await text("#model-states"), blocks: await text("#kv-text"), steps: await text("#step-strips"), strip, cells,
      charts: await page.$$eval("canvas", (all) => all.length) };
  },
};

try {
  const said = await scenarios[scenario]();
  console.log(JSON.stringify({ ...said, failures, origins: [...requested] }));
} finally {
  await browser.close();
}
