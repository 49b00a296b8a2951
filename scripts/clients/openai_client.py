"""The official `openai` package against a running server: chat, stream, completions, lists of prompts, tools, a
schema, responses and their tools, embeddings, errors, 16 streams at once.

    python openai_client.py BASE_URL          e.g. http://127.0.0.1:8000/v1

Prints one line per check, then `N passed, 0 failed`; exits 1 at the first failure.
"""
import asyncio
import json
import sys

import openai
import pydantic

base = sys.argv[1]
client = openai.OpenAI(base_url=base, api_key="none", max_retries=0)
passed = 0


def check(name, holds, detail=""):
    global passed
    if not holds:
        sys.exit(f"FAILED {name}: {detail}")
    passed += 1
    print(f"ok {name}")


def messages(text):
    return [{"role": "user", "content": text}]


model = client.models.list().data[0].id
check("models.list names the model", bool(model), model)
check("models.retrieve", client.models.retrieve(model).id == model)

whole = client.chat.completions.create(model=model, messages=messages("What is the capital of France?"), temperature=0, max_tokens=40)
text = whole.choices[0].message.content
check("chat answers Paris", "Paris" in text, text)
check("chat finish_reason", whole.choices[0].finish_reason in ("stop", "length"))
check("chat usage adds up", whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens)
check("chat has a fingerprint", bool(whole.system_fingerprint))

chunks = list(client.chat.completions.create(model=model, messages=messages("What is the capital of France?"), temperature=0,
                                             max_tokens=40, stream=True, stream_options={"include_usage": True}))
streamed = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
check("stream equals whole", streamed == text, streamed)
check("stream starts with the role", chunks[0].choices[0].delta.role == "assistant")
check("stream ends with usage", chunks[-1].usage is not None and not chunks[-1].choices)
check("stream usage equals whole usage", chunks[-1].usage.completion_tokens == whole.usage.completion_tokens)

one = client.completions.create(model=model, prompt="The first three prime numbers are", temperature=0, max_tokens=12)
check("completion has text", len(one.choices[0].text) > 0)
prompts = ["The first three prime numbers are", "Once upon a time", "def add(a, b):"]
many = client.completions.create(model=model, prompt=prompts, temperature=0, max_tokens=12)
check("list of prompts gives one choice each, in order", [c.index for c in many.choices] == [0, 1, 2])
check("a prompt in a list equals it alone", many.choices[0].text == one.choices[0].text)
twice = client.completions.create(model=model, prompt=prompts[1], n=2, temperature=0.8, seed=7, max_tokens=12)
again = client.completions.create(model=model, prompt=prompts[1], n=2, temperature=0.8, seed=7, max_tokens=12)
check("n=2 gives two", len(twice.choices) == 2)
check("a seed repeats", [c.text for c in twice.choices] == [c.text for c in again.choices])
check("samples differ", twice.choices[0].text != twice.choices[1].text)
ids = client.completions.create(model=model, prompt=[1, 2, 3], temperature=0, max_tokens=4)
check("token ids as prompt", ids.usage.prompt_tokens == 3)
scored = client.completions.create(model=model, prompt="Hello", temperature=0, max_tokens=3, logprobs=2)
check("completion logprobs", len(scored.choices[0].logprobs.token_logprobs) == 3)
chat_scored = client.chat.completions.create(model=model, messages=messages("Hi"), temperature=0, max_tokens=3, logprobs=True, top_logprobs=3)
entry = chat_scored.choices[0].logprobs.content[0]
check("chat top_logprobs hold the chosen token first", entry.top_logprobs[0].token == entry.token and len(entry.top_logprobs) == 3)
stopped = client.completions.create(model=model, prompt="Count: 1, 2, 3,", temperature=0, max_tokens=40, stop=["6"])
check("a stop string is not in the text", "6" not in stopped.choices[0].text and stopped.choices[0].finish_reason == "stop", stopped.choices[0].text)

weather = {"type": "function", "function": {"name": "get_weather", "description": "Weather of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 20}, "unit": {"enum": ["C", "F"]}},
    "required": ["city", "unit"], "additionalProperties": False}}}
asked = dict(model=model, messages=messages("What is the weather in Oslo?"), tools=[weather], tool_choice="required", temperature=0, max_tokens=80)
called = client.chat.completions.create(**asked, parallel_tool_calls=False).choices[0]
call = called.message.tool_calls[0].function
arguments = json.loads(call.arguments)
check("a call that must come keeps to its schema", called.finish_reason == "tool_calls" and call.name == "get_weather" and arguments["unit"] in "CF" and len(arguments) == 2, call)
chunks = client.chat.completions.create(**asked, parallel_tool_calls=False, stream=True)
parts = [delta for chunk in chunks for choice in chunk.choices for delta in choice.delta.tool_calls or []]
check("a streamed call is the same", "".join(part.function.arguments for part in parts) == call.arguments and parts[0].function.name == call.name, parts)
free = client.chat.completions.create(**{**asked, "tool_choice": "auto", "max_tokens": 2}).choices[0]
check("tools may be left alone", free.finish_reason in ("length", "stop"), free)


class Person(pydantic.BaseModel):
    name: str
    age: int


parsed = client.chat.completions.parse(model=model, messages=messages("Invent a person."), response_format=Person, temperature=0.8, seed=1, max_tokens=200)
check("parse gives an object of a pydantic schema", isinstance(parsed.choices[0].message.parsed, Person), parsed.choices[0].message.content)
answer = client.responses.create(model=model, input="What is the capital of France?", temperature=0, max_output_tokens=40)
check("responses answers as chat does", answer.output_text == text, answer.output_text)
events = list(client.responses.create(model=model, input="What is the capital of France?", temperature=0, max_output_tokens=40, stream=True))
deltas = "".join(event.delta for event in events if event.type == "response.output_text.delta")
check("a streamed response equals the whole", deltas == answer.output_text and events[-1].response.output_text == answer.output_text, deltas)
check("a response tells its end", events[-1].type in ("response.completed", "response.incomplete"), events[-1].type)
flat = {"type": "function", **weather["function"]}
asked = dict(model=model, input="What is the weather in Oslo?", tools=[flat], tool_choice="required", parallel_tool_calls=False, temperature=0)
called = client.responses.create(**asked, max_output_tokens=80)
item = called.output[0]
check("a response calls as chat does", (item.type, item.name, item.arguments) == ("function_call", call.name, call.arguments), item)
check("a response tells its tools back", called.tools[0].name == call.name and called.tool_choice == "required" and not called.parallel_tool_calls, called)
with client.responses.stream(**asked, max_output_tokens=80) as stream:
    kinds = [event.type for event in stream]
    final = stream.get_final_response()
check("the package puts a streamed call together", [(part.type, part.name, part.arguments) for part in final.output] == [(item.type, item.name, item.arguments)], final)
kinds = [kind for kind, before in zip(kinds, [None, *kinds]) if kind != before]
parts = ["output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done", "completed"]
check("a streamed call has its events in order", kinds[2:] == [f"response.{part}" for part in parts], kinds)
result = {"type": "function_call_output", "call_id": item.call_id, "output": "sunny, 21 degrees"}
said = client.responses.create(model=model, input=[*messages("What is the weather in Oslo?"), item, result], tools=[flat], tool_choice="none", temperature=0, max_output_tokens=40)
check("a call and its output are taken back", said.output[0].type == "message" and len(said.output_text) > 0, said)
vectors = client.embeddings.create(model=model, input=["a cat sat on the mat", "a kitten lay on the rug", "interest rates rose"]).data
dot = lambda a, b: sum(x * y for x, y in zip(a.embedding, b.embedding))
check("embeddings have length 1", all(abs(dot(v, v) - 1) < 1e-4 for v in vectors))
check("what means alike lies closer", dot(vectors[0], vectors[1]) > dot(vectors[0], vectors[2]))
floats = client.embeddings.create(model=model, input="a cat sat on the mat", encoding_format="float").data[0].embedding
check("an embedding alone is that of a batch", max(abs(x - y) for x, y in zip(floats, vectors[0].embedding)) < 1e-6)


def fails(name, kind, status, call):
    try:
        call()
    except kind as error:
        check(name, error.status_code == status and error.body.get("message"), str(error))
    else:
        check(name, False, "no error")


bad, chat = openai.BadRequestError, client.chat.completions.create
fails("another model is 404", openai.NotFoundError, 404, lambda: chat(model="gpt-5", messages=messages("x")))
fails("temperature 9 is 400", bad, 400, lambda: chat(model=model, messages=messages("x"), temperature=9))
fails("no messages is 400", bad, 400, lambda: chat(model=model, messages=[]))
fails("an unknown field is 400", bad, 400, lambda: chat(model=model, messages=messages("x"), extra_body={"temprature": 1}))
fails("a prompt over the context is 400", bad, 400, lambda: client.completions.create(model=model, prompt=[5] * 40000, max_tokens=5))

raw = client.chat.completions.with_raw_response.create(model=model, messages=messages("Hi"), max_tokens=2, user="somebody")
check("an ignored field is named", "user" in raw.headers.get("x-ucuz-ignored", ""), str(raw.headers))


async def stream(client, i, tokens=24):
    parts = []
    async for chunk in await client.chat.completions.create(model=model, messages=messages(f"Tell me fact number {i} about the sea."),
                                                            temperature=0.7, seed=i, max_tokens=tokens, stream=True):
        parts.append(chunk.choices[0].delta.content or "" if chunk.choices else "")
    return "".join(parts)


async def concurrent():
    many = openai.AsyncOpenAI(base_url=base, api_key="none", max_retries=0)
    alone = [await stream(many, i) for i in range(16)]
    together = await asyncio.gather(*(stream(many, i) for i in range(16)))
    for i in range(16):
        check(f"stream {i} of 16 at once equals its solo run", together[i] == alone[i], f"{alone[i]!r} / {together[i]!r}")


asyncio.run(concurrent())
print(f"{passed} passed, 0 failed")
