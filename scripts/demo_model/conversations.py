"""What the demo model is taught: conversations about pictures, small talk, arithmetic, tool calls, and thinking when asked to.

`sample_about_pictures` and `sample_of_text` draw one sample each: messages in OpenAI's chat shape, tools, whether it thinks, the answer that is
to be learned, and the specifications of its pictures (pictures.py). Wording varies; facts follow from the specification alone, so a
held-out sample has one right answer.
"""

import json

from pictures import CELLS, COLOURS, DIGITS_MAX, SHAPES, THINGS_MAX, number_spec, shapes_spec

COLOUR_NAMES = list(COLOURS)


class Sample:
    def __init__(self, messages, answer, specs=(), tools=None, thinking=None, kind=""):
        self.messages, self.answer, self.specs, self.tools, self.thinking, self.kind = (messages, answer, list(specs), tools,
                                                                                         thinking, kind)


def user(text, pictures=0):
    if pictures == 0:
        return {"role": "user", "content": text}
    return {"role": "user", "content": [{"type": "image"}] * pictures + [{"type": "text", "text": text}]}


def assistant(text):
    return {"role": "assistant", "content": text}


# --- about pictures --------------------------------------------------------------------------------------------------

def plural(shape, count):
    return shape if count == 1 else {"cross": "crosses"}.get(shape, shape + "s")


def things_of(random, count, shapes=None):
    cells = random.sample(range(9), count)
    return [(shapes[i] if shapes else random.randrange(len(SHAPES)), random.randrange(len(COLOURS)), cell)
            for i, cell in enumerate(sorted(cells))]


def name_of(thing):
    return f"{COLOUR_NAMES[thing[1]]} {SHAPES[thing[0]]}"


def article(words):
    return ("an " if words[0] in "aeiou" else "a ") + words


def listed(words):
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


def about_colour(random):
    things = things_of(random, 1)
    shape = SHAPES[things[0][0]]
    asked = random.choice([f"What colour is the {shape}?", f"Which colour does the {shape} have?", f"What color is the {shape}?"])
    return asked, f"The {shape} is {COLOUR_NAMES[things[0][1]]}.", shapes_spec(things)


def about_shape(random):
    things = things_of(random, 1)
    asked = random.choice(["What shape is in the picture?", "What is in the picture?", "What do you see?", "Describe the picture.",
                           "What is shown in this image?"])
    return asked, f"There is {article(name_of(things[0]))}.", shapes_spec(things)


def about_all(random):
    things = things_of(random, random.randint(2, 4))
    asked = random.choice(["What is in the picture?", "What do you see?", "Describe the picture.", "What is shown in this image?"])
    return asked, f"There is {listed([article(name_of(thing)) for thing in things])}.", shapes_spec(things)


def count_things(random):
    wanted = random.randrange(len(SHAPES))
    count = random.randint(0, THINGS_MAX)
    others = random.randint(0 if count else 1, max(0 if count else 1, min(2, THINGS_MAX - count)))
    strange = [shape for shape in range(len(SHAPES)) if shape != wanted]
    shapes = [wanted] * count + [random.choice(strange) for _ in range(others)]
    random.shuffle(shapes)
    return wanted, count, things_of(random, len(shapes), shapes)


def about_count(random):
    wanted, count, things = count_things(random)
    name = plural(SHAPES[wanted], 0)
    asked = random.choice([f"How many {name} are there?", f"How many {name} are in the picture?", f"Count the {name}."])
    said = f"There {'is' if count == 1 else 'are'} {count} {plural(SHAPES[wanted], count)}."
    return asked, said, shapes_spec(things)


def about_total(random):
    things = things_of(random, random.randint(1, THINGS_MAX))
    asked = random.choice(["How many shapes are there?", "How many shapes are in the picture?", "Count the shapes."])
    said = "There is 1 shape." if len(things) == 1 else f"There are {len(things)} shapes."
    return asked, said, shapes_spec(things)


def about_place(random):
    things = things_of(random, random.randint(1, 4))
    names = [name_of(thing) for thing in things]
    alone = [i for i, name in enumerate(names) if names.count(name) == 1]
    chosen = random.choice(alone) if alone else 0
    things = things if alone else things[:1]
    asked = random.choice([f"Where is the {names[chosen]}?", f"Where in the picture is the {names[chosen]}?"])
    return asked, f"The {names[chosen]} is {where(CELLS[things[chosen][2]])}.", shapes_spec(things)


def where(place):
    return f"{'in the' if place == 'centre' else 'at the'} {place}"


def about_places(random):
    things = things_of(random, random.randint(1, 4))
    said = listed([f"{article(name_of(thing))} {where(CELLS[thing[2]])}" for thing in things])
    return random.choice(["Where is everything?", "What is where?"]), f"There is {said}.", shapes_spec(things)


def about_number(random):
    digits = "".join(str(random.randint(0, 9)) for _ in range(random.randint(1, DIGITS_MAX)))
    asked = random.choice(["What number is shown?", "Which number do you see?", "Read the number.", "What number is in the picture?"])
    return asked, f"The number is {digits}.", number_spec(digits, random.randrange(len(COLOURS)))


ONE_PICTURE = {"colour": about_colour, "shape": about_shape, "describe": about_all, "count": about_count, "total": about_total,
               "place": about_place, "number": about_number}


def compare_shapes(random):
    first, second = things_of(random, 1), things_of(random, 1)
    if random.random() < 0.5:
        second[0] = (first[0][0], *second[0][1:])
    asked = random.choice(["Do both pictures show the same shape?", "Is the shape the same in both pictures?"])
    a, b = SHAPES[first[0][0]], SHAPES[second[0][0]]
    said = f"Yes, both show a {a}." if a == b else f"No, the first shows a {a} and the second a {b}."
    return asked, said, [shapes_spec(first), shapes_spec(second)]


def compare_colours(random):
    first, second = things_of(random, 1), things_of(random, 1)
    if random.random() < 0.5:
        second[0] = (second[0][0], first[0][1], second[0][2])
    asked = random.choice(["Do both shapes have the same colour?", "Is the colour the same in both pictures?"])
    a, b = COLOUR_NAMES[first[0][1]], COLOUR_NAMES[second[0][1]]
    said = f"Yes, both are {a}." if a == b else f"No, the first is {a} and the second is {b}."
    return asked, said, [shapes_spec(first), shapes_spec(second)]


def compare_counts(random):
    counts = random.randint(1, THINGS_MAX), random.randint(1, THINGS_MAX)
    specs = [shapes_spec(things_of(random, count)) for count in counts]
    asked = random.choice(["Which picture has more shapes?", "In which picture are more shapes?"])
    if counts[0] == counts[1]:
        said = f"Both have {counts[0]}."
    else:
        more, less = ("first", "second") if counts[0] > counts[1] else ("second", "first")
        said = f"The {more} one has {max(counts)}, the {less} {min(counts)}."
    return asked, said, specs


def compare_numbers(random):
    numbers = [str(random.randint(0, 99)) for _ in range(2)]
    specs = [number_spec(number, random.randrange(len(COLOURS))) for number in numbers]
    return random.choice(["Which numbers are shown?", "Read both numbers."]), f"The numbers are {numbers[0]} and {numbers[1]}.", specs


def both_shown(random):
    first, second = things_of(random, 1), things_of(random, 1)
    asked = random.choice(["What do the pictures show?", "What is in the two pictures?"])
    said = f"The first shows {article(name_of(first[0]))} and the second {article(name_of(second[0]))}."
    return asked, said, [shapes_spec(first), shapes_spec(second)]


TWO_PICTURES = {"same shape": compare_shapes, "same colour": compare_colours, "more": compare_counts, "two numbers": compare_numbers}

# In training, what is hard comes more often, with two kinds of question whose answers say much about where things are and what is in which
# picture. Held-out questions are of the kinds above, equally often.
TAUGHT_ONE = {**ONE_PICTURE, "places": about_places}
TAUGHT_TWO = {**TWO_PICTURES, "both": both_shown}
TAUGHT_OFTEN = {"describe": 1.5, "count": 2, "total": 1.5, "place": 2.5, "places": 2, "number": 2, "same shape": 3, "more": 1.5,
                "two numbers": 2}


def draw_kind(random, pictures, taught):
    if not taught:
        return random.choice(list((ONE_PICTURE if pictures == 1 else TWO_PICTURES).items()))
    kinds = TAUGHT_ONE if pictures == 1 else TAUGHT_TWO
    return random.choices(list(kinds.items()), [TAUGHT_OFTEN.get(kind, 1) for kind in kinds])[0]


def sample_about_pictures(random, pictures, taught):
    """taught: for training; else held out."""
    kind, ask = draw_kind(random, pictures, taught)
    asked, said, specs = ask(random)
    specs = [specs] if pictures == 1 else specs
    messages, thinking = [user(asked, pictures)], None
    if pictures == 1 and random.random() < 0.15 and kind not in ("number", "describe", "places"):
        messages = [user("What do you see?", 1), assistant(seen(specs[0])), user(asked)]
    elif random.random() < 0.1:
        thinking = f"I look at the picture{'s' if pictures > 1 else ''}. " + \
            " ".join(seen(spec) for spec in specs)
    return Sample(messages, said, specs, thinking=thinking, kind=kind)


def seen(spec):
    """The description of a specification, as about_all words it."""
    if spec[0] == 1:
        return "The number is " + "".join(str(digit) for digit in spec[2:2 + DIGITS_MAX] if digit >= 0) + "."
    at = 2 + DIGITS_MAX
    things = [spec[i:i + 3] for i in range(at, len(spec), 3) if spec[i] >= 0]
    return f"There is {listed([article(name_of(thing)) for thing in things])}."


# --- without pictures ------------------------------------------------------------------------------------------------

TALK = [(("Hello!", "Hi", "Hello", "Hi there!", "Good morning", "Hey"), "Hello! How can I help you?"),
        (("How are you?", "How do you do?"), "I am fine, thank you. What can I do for you?"),
        (("Who are you?", "What are you?", "What is your name?"), "I am a very small model that looks at simple pictures."),
        (("What can you do?", "Help", "What can I ask?"),
         "Ask me about shapes, colours and numbers in a picture, about sums, or give me a tool to use."),
        (("Thank you!", "Thanks", "Thanks a lot!"), "You are welcome."),
        (("Goodbye", "Bye", "See you"), "Goodbye!"),
        (("Tell me a joke.", "Say something funny."), "Why did the triangle go home? It had no point in staying."),
        (("Tell me a story.", "Tell me a short story."),
         "Once a small red circle rolled down a hill. It met a blue square, who could not roll at all. So the circle stayed, and they "
         "looked at the clouds together until it was dark."),
        (("What is the sun?",), "The sun is a star."), (("What is water?",), "Water is a liquid that we drink.")]
CAPITALS = {"France": "Paris", "Germany": "Berlin", "Italy": "Rome", "Spain": "Madrid", "Japan": "Tokyo", "China": "Beijing",
            "Norway": "Oslo", "Sweden": "Stockholm", "Poland": "Warsaw", "Greece": "Athens", "Egypt": "Cairo", "Kenya": "Nairobi",
            "Peru": "Lima", "Cuba": "Havana", "Canada": "Ottawa", "Austria": "Vienna", "Portugal": "Lisbon", "Ireland": "Dublin",
            "Finland": "Helsinki", "Denmark": "Copenhagen", "Hungary": "Budapest", "Turkey": "Ankara", "India": "New Delhi"}
OPPOSITES = {"hot": "cold", "big": "small", "up": "down", "left": "right", "day": "night", "old": "new", "fast": "slow", "wet": "dry",
             "light": "dark", "open": "closed", "full": "empty", "hard": "soft", "early": "late", "high": "low", "rich": "poor"}
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
CITIES = sorted(CAPITALS.values())
WORDS = sorted({*OPPOSITES, *OPPOSITES.values(), *COLOURS, *SHAPES, "house", "tree", "river", "bread", "music", "garden", "window", "paper",
                "winter", "summer", "friend", "letter", "engine", "pepper", "silver", "market"})


def talk(random):
    asked, said = random.choice(TALK)
    return random.choice(asked), said, None


def fact(random):
    kind = random.randrange(4)
    if kind == 0:
        country = random.choice(list(CAPITALS))
        asked = random.choice([f"What is the capital of {country}?", f"Capital of {country}?"])
        return asked, f"The capital of {country} is {CAPITALS[country]}.", f"{country} is a country. Its capital is {CAPITALS[country]}."
    if kind == 1:
        word = random.choice(list(OPPOSITES))
        return f"What is the opposite of {word}?", f"The opposite of {word} is {OPPOSITES[word]}.", None
    if kind == 2:
        day = random.randrange(7)
        return f"Which day comes after {DAYS[day]}?", f"After {DAYS[day]} comes {DAYS[(day + 1) % 7]}.", None
    word = random.choice(WORDS)
    return f"Spell the word {word}.", "-".join(word) + ".", None


def repeat(random):
    words = " ".join(random.choice(WORDS) for _ in range(random.randint(1, 6)))
    return random.choice([f"Say: {words}", f"Repeat after me: {words}"]), words, None


def count_up(random):
    first = random.randint(0, 20)
    last = first + random.randint(1, 40)
    return f"Count from {first} to {last}.", " ".join(str(i) for i in range(first, last + 1)), None


def sum_of(random):
    a, b = random.randint(0, 99), random.randint(0, 99)
    sign = random.choice("+-*")
    if sign == "*":
        a, b = a % 13, b % 13
    if sign == "-":
        a, b = max(a, b), min(a, b)
    result = {"+": a + b, "-": a - b, "*": a * b}[sign]
    asked = random.choice([f"What is {a} {sign} {b}?", f"{a} {sign} {b}", f"{a} {sign} {b} = ?", f"Calculate {a} {sign} {b}."])
    return asked, f"{a} {sign} {b} = {result}", thinking_of(a, sign, b, result)


def thinking_of(a, sign, b, result):
    if sign == "*":
        return f"{a} times {b} is {result}."
    tens = {"+": a + b // 10 * 10, "-": a - b // 10 * 10}[sign]
    return f"First the tens: {a} {sign} {b // 10 * 10} = {tens}. Then the ones: {tens} {sign} {b % 10} = {result}."


PLAIN = [talk, fact, repeat, count_up, sum_of, sum_of]
SYSTEMS = ["You are a helpful assistant.", "Be brief.", "You are a friendly assistant.", "Answer in one sentence."]


def sample_of_text(random):
    if random.random() < 0.5:
        return sample_with_tools(random)
    messages = []
    if random.random() < 0.3:
        messages.append({"role": "system", "content": random.choice(SYSTEMS)})
    for _ in range(random.choice([0, 0, 0, 1, 1, 2])):
        asked, said, _ = random.choice(PLAIN)(random)
        if len(said) < 120:
            messages += [user(asked), assistant(said)]
    asked, said, thought = random.choice(PLAIN)(random)
    thinking = None
    if random.random() < 0.35:
        thinking = thought or f"The user says: {asked} I know what to say."
    return Sample(messages + [user(asked)], said, thinking=thinking, kind="text")


# --- tools -----------------------------------------------------------------------------------------------------------

def schema(name, description, **properties):
    described = {key: {"type": kind} for key, kind in properties.items()}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": {
        "type": "object", "properties": described, "required": list(properties)}}}


def weather(random, name):
    city = random.choice(CITIES)
    degrees, sky = random.randint(-5, 35), random.choice(["sunny", "cloudy", "rainy", "windy"])
    asked = random.choice([f"What is the weather in {city}?", f"How is the weather in {city}?", f"Weather in {city}?"])
    return (schema(name, "The weather of a city.", city="string"), asked, {"city": city},
            json.dumps({"temperature": degrees, "sky": sky}), f"In {city} it is {sky} with {degrees} degrees.")


def calculator(random, name):
    a, b, sign = random.randint(100, 9999), random.randint(100, 9999), random.choice("+-")
    result = a + b if sign == "+" else a - b
    return (schema(name, "Computes an expression.", expression="string"), f"What is {a} {sign} {b}?",
            {"expression": f"{a} {sign} {b}"}, str(result), f"{a} {sign} {b} = {result}")


def clock(random, name):
    city = random.choice(CITIES)
    time = f"{random.randint(0, 23):02d}:{random.randint(0, 59):02d}"
    return (schema(name, "The time in a city.", city="string"), f"What time is it in {city}?", {"city": city}, time,
            f"In {city} it is {time}.")


def reminder(random, name):
    minutes, word = random.randint(1, 90), random.choice(WORDS)
    return (schema(name, "Reminds the user later.", minutes="integer", text="string"),
            f"Remind me of the {word} in {minutes} minutes.", {"minutes": minutes, "text": word}, "ok",
            f"I will remind you of the {word} in {minutes} minutes.")


def lamp(random, name):
    on, room = random.random() < 0.5, random.choice(["kitchen", "garden", "hall", "office"])
    return (schema(name, "Switches a lamp.", room="string", on="boolean"), f"Turn {'on' if on else 'off'} the lamp in the {room}.",
            {"room": room, "on": on}, "done", f"The lamp in the {room} is {'on' if on else 'off'}.")


TOOLS = {weather: ["get_weather", "weather", "current_weather"], calculator: ["calculator", "calculate", "compute"],
         clock: ["get_time", "clock", "time_in"], reminder: ["set_reminder", "remind", "add_reminder"],
         lamp: ["switch_lamp", "lamp", "set_light"]}


def call_text(name, arguments):
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}) + "\n</tool_call>"


def sample_with_tools(random):
    chosen = random.sample(list(TOOLS), random.randint(1, 3))
    drawn = []
    for tool in chosen:
        name = random.choice(TOOLS[tool])
        drawn.append((name, *tool(random, name)))
    tools = [entry[1] for entry in drawn]
    random.shuffle(tools)
    name, _, asked, arguments, result, said = drawn[0]
    fate = random.random()
    if fate < 0.12:  # nothing to call
        asked, said, _ = random.choice([talk, fact, repeat])(random)
        return Sample([user(asked)], said, tools=tools, kind="tools unused")
    if fate < 0.2 and len(drawn) > 1:  # two calls at once
        asked = f"{asked} {drawn[1][2]}"
        calls = call_text(name, arguments) + "\n" + call_text(drawn[1][0], drawn[1][3])
        return Sample([user(asked)], calls, tools=tools, kind="two calls")
    if fate < 0.65:
        thinking = f"I should use {name}." if random.random() < 0.3 else None
        return Sample([user(asked)], call_text(name, arguments), tools=tools, thinking=thinking, kind="call")
    call = {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {
        "name": name, "arguments": arguments}}]}
    messages = [user(asked), call, {"role": "tool", "content": result}]
    if random.random() < 0.7 or len(drawn) == 1:
        return Sample(messages, said, tools=tools, kind="after a call")
    messages += [assistant(said), user(drawn[1][2])]  # the next turn calls again
    return Sample(messages, call_text(drawn[1][0], drawn[1][3]), tools=tools, kind="second call")
