"""Frameworks that speak OpenAI's protocol against a running server: LangChain's chat model and litellm.

    python frameworks.py BASE_URL          e.g. http://127.0.0.1:8000/v1; needs langchain-openai and litellm

Prints one line per check, then `N passed, 0 failed`; exits 1 at the first failure.
"""
import os
import sys

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import litellm
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

base = sys.argv[1]
passed = 0
QUESTION = "What is the capital of France?"


def check(name, holds, detail=""):
    global passed
    if not holds:
        sys.exit(f"FAILED {name}: {detail}")
    passed += 1
    print(f"ok {name}")


import openai

model = openai.OpenAI(base_url=base, api_key="none").models.list().data[0].id
chat = ChatOpenAI(model=model, base_url=base, api_key="none", temperature=0, max_tokens=40, max_retries=0)
answer = chat.invoke(QUESTION)
check("LangChain's chat model answers", "Paris" in answer.content, answer.content)
check("LangChain counts tokens", answer.usage_metadata["output_tokens"] > 0, answer.usage_metadata)
parts = "".join(part.content for part in chat.stream(QUESTION))
check("LangChain's stream equals the whole", parts == answer.content, parts)
responses = ChatOpenAI(model=model, base_url=base, api_key="none", temperature=0, max_tokens=40, max_retries=0, use_responses_api=True)
check("LangChain over responses answers", "Paris" in responses.invoke(QUESTION).text, "")
vectors = OpenAIEmbeddings(model=model, base_url=base, api_key="none", check_embedding_ctx_length=False).embed_documents(["a", "b"])
check("LangChain embeds", len(vectors) == 2 and len(vectors[0]) == len(vectors[1]) > 100, "")

messages = [{"role": "user", "content": QUESTION}]
options = {"model": f"openai/{model}", "api_base": base, "api_key": "none", "temperature": 0, "max_tokens": 40, "num_retries": 0}
whole = litellm.completion(messages=messages, **options)
text = whole.choices[0].message.content
check("litellm answers", "Paris" in text and whole.usage.completion_tokens > 0, text)
chunks = litellm.completion(messages=messages, stream=True, **options)
check("litellm's stream equals the whole", "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == text)
try:
    litellm.completion(messages=messages, **{**options, "temperature": 9})
except litellm.BadRequestError as error:
    check("litellm tells a bad request", "temperature" in str(error), error)
else:
    check("litellm tells a bad request", False, "no error")
print(f"{passed} passed, 0 failed")
