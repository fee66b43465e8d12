"""What a Gateway does with a request for an InferencePool: asks the endpoint picker over Envoy's external processing protocol, sends the request to
the chosen endpoint, and asks again if that one does not answer."""

import http.client
import json
import queue
import time

import grpc
from envoy.config.core.v3 import base_pb2
from envoy.service.ext_proc.v3 import external_processor_pb2 as messages
from envoy.service.ext_proc.v3 import external_processor_pb2_grpc as services

DESTINATION = "x-gateway-destination-endpoint"
TRIES, BETWEEN_S = 100, 0.05  # until the dead endpoint's pod is not ready, the picker may choose it again
PATIENCE_S = 300


class Refused(Exception):
    """The picker answered the request itself, as when no endpoint is ready."""


def header(name, value):
    return base_pb2.HeaderValue(key=name, raw_value=value.encode())


class Gateway:
    def __init__(self, picker_port):
        self.channel = grpc.insecure_channel(f"127.0.0.1:{picker_port}")
        self.picker = services.ExternalProcessorStub(self.channel)

    def close(self):
        self.channel.close()

    def choose(self, path, body):
        """(endpoint as address:port, function that tells the picker the end of the response)"""
        outbox = queue.Queue()
        answers = self.picker.Process(iter(outbox.get, None), timeout=PATIENCE_S)
        headers = [header(":method", "POST"), header(":path", path), header("content-type", "application/json"), header(":authority", "shoal")]
        outbox.put(messages.ProcessingRequest(request_headers=messages.HttpHeaders(headers=base_pb2.HeaderMap(headers=headers))))
        outbox.put(messages.ProcessingRequest(request_body=messages.HttpBody(body=body, end_of_stream=True)))

        def end():
            outbox.put(messages.ProcessingRequest(response_headers=messages.HttpHeaders(
                headers=base_pb2.HeaderMap(headers=[header(":status", "200")]))))
            outbox.put(messages.ProcessingRequest(response_body=messages.HttpBody(body=b"{}", end_of_stream=True)))
            outbox.put(None)
            for _ in answers:
                pass
        try:
            for answer in answers:
                if answer.HasField("immediate_response"):
                    raise Refused(answer.immediate_response.status.code)
                for option in answer.request_headers.response.header_mutation.set_headers:
                    if option.header.key == DESTINATION:
                        return option.header.raw_value.decode(), end
        except (Refused, grpc.RpcError):
            outbox.put(None)
            raise
        raise AssertionError("the picker named no endpoint")

    def post(self, path, fields):
        """(endpoint, answer, number of endpoints that did not answer) of a request that is sent until one answers."""
        body = json.dumps(fields).encode()
        for failed in range(TRIES):
            try:
                endpoint, end = self.choose(path, body)
            except (Refused, grpc.RpcError):
                time.sleep(BETWEEN_S)
                continue
            connection = http.client.HTTPConnection(endpoint, timeout=PATIENCE_S)
            try:
                connection.request("POST", path, body, {"Content-Type": "application/json"})
                reply = connection.getresponse()
                answer = json.load(reply)
                if reply.status != 503:  # draining
                    assert reply.status == 200, answer
                    return endpoint, answer, failed
            except (OSError, http.client.HTTPException):
                pass
            finally:
                connection.close()
                end()
            time.sleep(BETWEEN_S)
        raise AssertionError(f"{TRIES} tries without an answer")
