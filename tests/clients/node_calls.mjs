// What the node scripts of this folder share, as client_calls.py for Python: the object, and the loop that calls a feature many times.
import { z } from "zod";

export const { SHOAL_URL: URL, SHOAL_MODEL: MODEL } = process.env;
const CALLS = Number(process.env.SHOAL_CALLS), AT_ONCE = Number(process.env.SHOAL_AT_ONCE);
export const QUESTION = "Describe one shape of an image.";
export const TOKENS = 400;
export const Shape = z.object({
    name: z.string().max(12).describe("What it is called"),
    kind: z.enum(["circle", "square", "triangle"]),
    count: z.number().int().min(1).max(20),
    size: z.number().min(0).max(10),
    tags: z.array(z.string().max(8)).max(3),
    next_to: z.enum(["left", "right"]).nullable(),
});

export function check(condition, words) {
    if (!condition)
        throw new Error(words);
}

async function attempt(work) {
    try {
        await work();
        return null;
    } catch (error) {
        return `${error.name}: ${error.message}`.slice(0, 600);
    }
}

// `features`: {name: [function, most calls or null]}; prints a JSON line for each.
export async function run(features) {
    for (const [feature, [work, most]] of Object.entries(features)) {
        const calls = Math.min(most ?? CALLS, CALLS), errors = [];
        let next = 0;
        await Promise.all(Array.from({ length: AT_ONCE }, async () => {
            while (next < calls) {
                next++;
                const error = await attempt(work);
                if (error)
                    errors.push(error);
            }
        }));
        console.log(JSON.stringify({ feature, good: calls - errors.length, calls, error: errors[0] ?? null }));
    }
}
