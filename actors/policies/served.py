"""A policy's network that the learner's process computes."""

from collections.abc import Callable
from typing import Any

from xagents_ray.core.inference import (
    INPUTS,
    NEXT_STATE,
    NOISE,
    OUTPUTS,
    STATE,
    InferenceClient,
    ServerAddress,
    machine_id,
)
from xagents_ray.core.trajectory import FloatArray, Observations, Weights


class ServedNetwork:
    """Forward passes of an inference server for some environments of a run.

    Args:
        first_env: index of the first environment in the run.
        n_envs: number of environments.
    Attributes:
        while_waiting: function that is called between a request and its reply.
    """

    def __init__(self, first_env: int, n_envs: int) -> None:
        self._first_env, self._n_envs = first_env, n_envs
        self._address: ServerAddress | None = None
        self._client: InferenceClient | None = None
        self.while_waiting: Callable[[], None] = lambda: None

    def bind(self, weights: Weights) -> Callable[..., Any] | None:
        """Return the forward pass with weights; None if no server here has them.

        The function is like that of `networks.forward.bind_network`, and raises
        InferenceLost.

        Raises:
            InferenceLost: the server is dead.
        """
        address = weights.server
        if address is None or not address.machine or address.machine != machine_id():
            return None
        if address != self._address or self._client is None:
            self.close()
            self._client = InferenceClient(address, self._first_env, self._n_envs)
            self._address = address
        client, version = self._client, weights.version
        n_outputs = sum(each.name.startswith(OUTPUTS) for each in address.fields)

        def forward(
            x: Observations,
            noise: FloatArray | None = None,
            *,
            state: FloatArray | None = None,
        ) -> Any:
            arrays = x if isinstance(x, dict) else {"": x}
            inputs = {f"{INPUTS}{name}": array for name, array in arrays.items()}
            # Without noise, the network has its mean weights.
            inputs[NOISE] = 0 if noise is None else noise
            inputs[STATE] = 0 if state is None else state
            client.request(version, inputs)
            self.while_waiting()
            found = client.reply()
            outputs = [found[f"{OUTPUTS}{i}"] for i in range(n_outputs)]
            return outputs if state is None else (outputs, found[NEXT_STATE])

        return forward

    def close(self) -> None:
        """Close the connection to the server."""
        if self._client is not None:
            self._client.close()
        self._client = None
