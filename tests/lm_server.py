"""A server on loopback with an OpenAI-compatible interface to the tiny LM, and the faults that a
test asks for."""

import json
import math
import re
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ceil_jax.lm.openai.config import EndpointConfig
from ceil_jax.lm.openai.probe import DICTATED
from ceil_jax.lm.tiny import TinyLM, _log_probs

QUICK = EndpointConfig(timeout=30)
TOKEN = re.compile(r" ?\w+| ?[^\w\s]|\s")


class Server:
    """Answers for the LM "tiny" and the encoder "tiny-encoder", except for faults, and records the
    requests.

    `faults` holds one entry for each request to come: a (status, headers, body) to answer with,
    "drop" (the connection ends inside the body), "slow" (the body trickles and does not end), or
    None for the right answer. `change` is given (path, request, answer) of each right answer and
    returns the one to send, or (status, answer). With `holds`, a chat is held to the labels of a
    schema. With `weighs`, it gives the most likely first tokens, at most as many as that number.
    """

    def __init__(self, encoder=None, key=None):
        self.lm = TinyLM()
        self.encoder = encoder
        self.key = key
        self.at_once = 0
        self.clear()

    def clear(self):
        self.faults = []
        self.holds = False
        self.weighs = 0
        self.requests = []
        self.headers = []
        self.most_at_once = 0
        self.change = lambda path, request, answer: answer

    def answer(self, path, body):
        made = {
            "/v1/models": self.models,
            "/v1/completions": self.completions,
            "/v1/chat/completions": self.chat,
            "/v1/embeddings": self.embeddings,
        }
        if path not in made:
            return 404, {"error": {"message": "no such path"}}
        if body.get("model", "tiny") not in ("tiny", "tiny-encoder"):
            return 404, {"error": {"message": f"no model {body['model']}"}}
        answer = made[path](body)
        answer = answer if isinstance(answer, tuple) else self.change(path, body, answer)
        return answer if isinstance(answer, tuple) else (200, answer)

    def models(self, body):
        entries = [{"id": "tiny", "root": "tiny", "max_model_len": 4096}]
        if self.encoder:
            entries.append({"id": "tiny-encoder", "root": self.encoder.fingerprint})
        return {"object": "list", "data": [{**entry, "owned_by": "ceil_jax"} for entry in entries]}

    def completions(self, body):
        prompts = [body["prompt"]] if isinstance(body["prompt"], str) else body["prompt"]
        written = self.written(prompts, body)
        choices = [
            {
                "index": i,
                "text": text,
                "logprobs": self.scores(prompts[i], body["logprobs"]) if body.get("echo") else None,
            }
            for i, text in enumerate(written)
        ]
        return {"choices": choices, "usage": self.usage(prompts, written)}

    def chat(self, body):
        prompts = ["\n".join(message["content"] for message in body["messages"])]
        count = body.get("top_logprobs", 0)
        if count > self.weighs:
            return 400, {"error": {"message": f"top_logprobs is at most {self.weighs}"}}
        [text] = self.written(prompts, body)
        if self.holds and "response_format" in body:
            schema = body["response_format"]["json_schema"]["schema"]
            labels = schema["properties"]["label"]["enum"]
            [best] = self.lm.choose(prompts, [labels])
            text = json.dumps({"label": labels[best]})
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": text},
            "finish_reason": "stop",
        }
        if count:
            top = [
                {"token": token, "logprob": log_prob}
                for token, log_prob in self.first_tokens(body["messages"], count).items()
            ]
            choice["logprobs"] = {"content": [{**top[0], "top_logprobs": top}]}
        return {"choices": [choice], "usage": self.usage(prompts, [text])}

    def embeddings(self, body):
        vectors = self.encoder.encode(body["input"]).tolist()
        data = [{"index": i, "embedding": vector} for i, vector in enumerate(vectors)]
        return {"data": data, "usage": self.usage(body["input"], [])}

    def written(self, prompts, body):
        asked = {"temperature": body.get("temperature", 0), "seed": body.get("seed", 0)}
        limit = body.get("max_tokens", body.get("max_completion_tokens"))
        return self.lm.generate(prompts, limit, body.get("stop", []), **asked)

    def scores(self, text, alternatives):
        tokens = TOKEN.findall(text)
        before = ["".join(tokens[:place]) for place in range(len(tokens))]
        log_probs = self.lm.log_likelihood(before, tokens).tolist()
        tops = [self.top(tokens[:place], alternatives) for place in range(len(tokens))]
        return {"tokens": tokens, "token_logprobs": log_probs, "top_logprobs": tops}

    def top(self, read, alternatives):
        """The likeliest tokens after those read, of those that are among them."""
        tokens = list(dict.fromkeys(read))
        log_probs = _log_probs(read, tokens)
        for place, token in enumerate(tokens):
            if TOKEN.fullmatch(read[-1] + token):  # it would continue the last word
                [log_probs[place]] = self.lm.log_likelihood(["".join(read)], [token])
        best = sorted(zip(log_probs.tolist(), tokens, strict=True), reverse=True)[:alternatives]
        return {token: log_prob for log_prob, token in best}

    def first_tokens(self, messages, count):
        """The likeliest first tokens of an answer; a dictated word's own."""
        contents = [message["content"] for message in messages]
        _, dictated, word = contents[-1].partition(DICTATED.format(label=""))
        if dictated:
            likely = {TOKEN.findall(word)[0]: math.log(0.9), "It": math.log(0.05)}
            return dict(list(likely.items())[:count])
        return self.top(TOKEN.findall("\n".join(contents)), count)

    def usage(self, prompts, written):
        read, wrote = (int(self.lm.count_tokens(texts).sum()) for texts in (prompts, written))
        return {"prompt_tokens": read, "completion_tokens": wrote, "total_tokens": read + wrote}


@contextmanager
def listening(server):
    """Serve within the block; gives the address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def send(self, status, headers, body):
            self.send_response(status)
            for name, value in ({"content-length": str(len(body))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def respond(self):
            body = json.loads(
                self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}"
            )
            server.requests.append((self.path, body))
            server.headers.append({name.lower(): value for name, value in self.headers.items()})
            fault = server.faults.pop(0) if server.faults else None
            if fault == "drop":
                self.send(200, {"content-length": "1000"}, b'{"choices": [')
                self.close_connection = True
            elif fault == "slow":
                self.send(200, {"content-length": "1000"}, b"")
                for _ in range(60):
                    self.wfile.write(b" ")
                    time.sleep(0.02)
                self.close_connection = True
            elif fault is not None:
                self.send(*fault)
            elif server.key and self.headers.get("authorization") != f"Bearer {server.key}":
                self.send(401, {}, b"{}")
            else:
                server.at_once += 1
                server.most_at_once = max(server.most_at_once, server.at_once)
                status, answer = server.answer(self.path, body)
                # before the answer leaves: its reader may ask again at once
                server.at_once -= 1
                self.send(status, {}, json.dumps(answer).encode())

        do_GET = do_POST = respond

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.daemon_threads = True
    listener.handle_error = lambda *_: None
    threading.Thread(
        target=listener.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    ).start()
    try:
        yield f"http://127.0.0.1:{listener.server_address[1]}/v1"
    finally:
        listener.shutdown()
        listener.server_close()
