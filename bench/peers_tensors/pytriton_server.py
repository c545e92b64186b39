"""NVIDIA's Triton server, as the wheel of pytriton carries it, with an identity model of its Python
backend and dynamic batching. Usage: pytriton_server.py GRPC_PORT HTTP_PORT; serves until it is ended.
"""

import sys

import numpy as np
from pytriton.decorators import batch
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig


@batch
def identity(INPUT0):
    return {"OUTPUT0": INPUT0}


def main() -> None:
    grpc_port, http_port = int(sys.argv[1]), int(sys.argv[2])
    config = TritonConfig(
        http_address="127.0.0.1", grpc_address="127.0.0.1", http_port=http_port, grpc_port=grpc_port,
        allow_metrics=False, log_verbose=0,
    )
    with Triton(config=config) as triton:
        triton.bind(
            model_name="identity",
            infer_func=identity,
            inputs=[Tensor(name="INPUT0", dtype=np.float32, shape=(32,))],
            outputs=[Tensor(name="OUTPUT0", dtype=np.float32, shape=(32,))],
            config=ModelConfig(max_batch_size=256, batcher=DynamicBatcher()),
        )
        triton.serve()


if __name__ == "__main__":
    main()
