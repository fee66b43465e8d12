// One scenario of the page in headless Chromium; prints a JSON object for page_test.py to judge.
// usage: node page_browser.mjs SCENARIO URL CHROMIUM [ARGUMENT]
import fs from "node:fs";
import puppeteer from "puppeteer-core";

const [scenario, url, executablePath, argument] = process.argv.slice(2);
const PATIENCE_MS = 240000;
const browser = await puppeteer.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"], headless: true, protocolTimeout: PATIENCE_MS });
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
