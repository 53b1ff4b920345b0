"""Models of `ModelReader` are those of Keras; agents start from them and fill them."""

import forked
import pytest

MODELS = """
import keras, numpy as np, pickle, xagents_ray
from xagents_ray.utils.common import ModelReader, create_envs

path = xagents_ray.agents["a2c"]["model"]["ann"][0]
def read(**settings):
    return ModelReader(path, [2, 1], (4,), **settings).build_model()

def near(one, other):
    return all(np.allclose(x, y, 0, 1e-12) for x, y in zip(one, other, strict=True))

def same(one, other):
    return all(map(np.array_equal, one.get_weights(), other.get_weights()))

model = read(optimizer="adam", seed=1)
assert isinstance(model, keras.Model) and model.count_params() == 4 * 64 + 64 * 66 + 195
logits, value = model(np.ones([3, 4], np.float32))
assert logits.shape == (3, 2) and value.shape == (3, 1)
assert same(model, read(seed=1)) and not same(model, read(seed=2))
assert not same(read(), read())

clone = keras.models.clone_model(model)
clone.set_weights(read(seed=2).get_weights())
assert same(clone, read(seed=2)) and not same(clone, model)
np.testing.assert_array_equal(pickle.loads(pickle.dumps(clone))(np.ones([1, 4]))[0],
                              clone(np.ones([1, 4]))[0])
clone.save_weights("clone.weights.h5")
assert model.load_weights("clone.weights.h5") is model and same(model, clone)
model.save("whole.keras")
assert same(keras.models.load_model("whole.keras"), clone)
assert keras.Model(model.inputs, model.outputs[0])(np.ones([2, 4])).shape == (2, 2)
assert model.optimizer.learning_rate == np.float32(1e-3)
"""
A2C = """
envs = create_envs("CartPole-v1", 2, preprocess=False)
def train(model, lr, steps=40, quiet=True, **settings):
    agent = xagents_ray.A2C(envs, model, lr=lr, quiet=quiet, **settings)
    agent.fit(max_steps=steps, local=True)
    return agent

import contextlib, io, tensorflow as tf
model, still = read(seed=3), 1e-30  # at which nothing is learned
before = model.get_weights()
train(model, still)
threads = tf.config.threading  # of a small network, also when a reader made it first
assert threads.get_intra_op_parallelism_threads() == 1
assert threads.get_inter_op_parallelism_threads() == 1
assert near(model.get_weights(), before)
with contextlib.redirect_stdout(io.StringIO()) as out:
    agent = train(model, 0.01, quiet=False, learner_threads=7)
said = " ".join(out.getvalue().split())
assert "no effect here: TensorFlow is in use in this process already, on 1" in said
assert "core; call the functions of tf.config.threading before" in said
assert agent.result.learner_threads == 1
after = model.get_weights()
assert not any(map(np.array_equal, after, before))
x = np.random.default_rng(1).normal(size=[50, 4]).astype(np.float32)
assert (agent.policy.act(x) == np.argmax(model(x)[0], -1)).all()
train(model, still, weights=None, resume=None)
assert near(model.get_weights(), after)
agent.fit(max_steps=80)  # goes on
assert not any(map(np.array_equal, model.get_weights(), after))

model.set_weights(before)
np.testing.assert_array_equal(agent.policy.act(x), np.argmax(model(x)[0], -1))
try:
    agent.fit(max_steps=120)
except xagents_ray.UserError as error:
    assert "make a new agent of them, A2C(envs, …), to start" in str(error)
else:
    raise AssertionError
untrained = xagents_ray.A2C(envs, read(seed=4))
greedy = np.argmax(read(seed=4)(x)[0], -1)
np.testing.assert_array_equal(untrained.policy.act(x), greedy)

own = keras.Input([4])  # a model of the user's own, named in another way
hidden = keras.layers.Dense(8, "tanh", name="first")(own)
own = keras.Model(own, [keras.layers.Dense(n)(hidden) for n in (2, 1)])
before = own.get_weights()
train(own, still)
assert near(own.get_weights(), before)
agent = train(own, 0.01)
assert not any(map(np.array_equal, own.get_weights(), before))
for mine, theirs in zip(own(x), agent.policy.to_keras()(x), strict=True):
    np.testing.assert_allclose(mine, theirs, 1e-5, 1e-6)
logits, value = own.outputs
ended = keras.Model(own.inputs, [keras.layers.Softmax()(logits), value])
before = ended.get_weights()
agent = train(ended, 0.01)
assert not any(map(np.array_equal, ended.get_weights(), before))
np.testing.assert_array_equal(agent.policy.act(x), np.argmax(ended(x)[0], -1))
"""
ACTORS_AND_CRITICS = """
import pathlib
from xagents_ray.extend import newest_arrays
from xagents_ray.run.weights_formats import encode_weights
from xagents_ray.storage.weights import write_file
from xagents_ray.utils.buffers import ReplayBuffer2

envs = create_envs("Pendulum-v1", 2, preprocess=False)
def read(agent, name, shape, units, **settings):
    path = xagents_ray.agents[agent][name]["ann"][0]
    return ModelReader(path, units, shape, **settings).build_model()

actor = read("td3", "actor_model", 3, [1])
critic = read("td3", "critic_model", 4, [1])
buffers = [ReplayBuffer2(50, initial_size=8, batch_size=4) for _ in envs]
agent = xagents_ray.TD3(envs, actor, critic, buffers, lr=1e-30, quiet=True)
models = agent.output_models
assert models[:2] == [actor, critic] and len(models) == 3
before = [model.get_weights() for model in models]
assert not any(map(np.array_equal, before[1][::2], before[2][::2]))  # kernels
agent.fit(max_steps=80, local=True)
for model, weights in zip(models, before, strict=True):
    assert near(model.get_weights(), weights)
arrays = newest_arrays(agent.result.directory)
for name, model in zip(["actor", "critic", "critic-2"], models, strict=True):
    first = arrays[f"{name}/dense-0/kernel"]
    np.testing.assert_array_equal(first, model.get_weights()[0])
agent = xagents_ray.TD3(envs, actor, critic, buffers, lr=0.01, quiet=True)
agent.fit(max_steps=80, local=True)
assert not np.array_equal(actor.get_weights()[0], before[0][0])
assert not np.array_equal(critic.get_weights()[0], before[1][0])

def make_critic(env):
    given = keras.Input(env.observation_space.shape)
    return keras.Model(given, keras.layers.Dense(1)(given))

def starts_of(agent):
    paths = agent._models.write(pathlib.Path(), agent.settings)["weights"]
    return [pathlib.Path(path).name for path in paths]

before = actor.get_weights()
agent = xagents_ray.TD3(envs, actor, make_critic, buffers, lr=1e-30, quiet=True)
agent.fit(max_steps=80, local=True)
assert near(actor.get_weights(), before)
arrays = newest_arrays(agent.result.directory)
np.testing.assert_array_equal(arrays["actor/dense-0/kernel"], actor.get_weights()[0])
own = keras.Input([4])
keras.Model(own, keras.layers.Dense(1)(own)).save("critic.keras")
none = "none.npz"
for each in ("critic.keras", "script_networks:critic"):
    assert starts_of(xagents_ray.TD3(envs, actor, each)) == ["actor.npz", none, none]
critic = read("sac", "critic_model", 4, [1])
agent = xagents_ray.SAC(envs, critic_model=critic, feature_maker=make_critic)
assert starts_of(agent) == [none, "critic.npz", none]

policy = read("a2c", "model", 3, [1, 1])
still = {"lr": 1e-30, "quiet": True, "normalize_observations": True}
agent = xagents_ray.A2C(envs, policy, init_log_std=-1.0, **still)
agent.fit(max_steps=20, local=True)
arrays = newest_arrays(agent.result.directory)
np.testing.assert_array_equal(arrays["policy/log_std"], [-1])
assert float(arrays["policy/observation/size"]) == 20
again = xagents_ray.A2C(envs, policy, **still)  # has what is not the network's too
again.fit(max_steps=20, local=True)
arrays = newest_arrays(again.result.directory)
np.testing.assert_array_equal(arrays["policy/log_std"], [-1])
assert float(arrays["policy/observation/size"]) == 40
assert float(arrays["policy/action_scaling"]) == 1

own = {k.removeprefix("policy/"): x for k, x in arrays.items() if k[:7] == "policy/"}
write_file(encode_weights(own, policy.layout, "all.keras"))
loaded = read("a2c", "model", 3, [1, 1]).load_weights("all.keras")
assert same(loaded, policy) and loaded.extras.keys() == policy.extras.keys()
np.testing.assert_array_equal(loaded.extras["log_std"], [-1])

policy.extras = {"log_std": policy.extras["log_std"]}  # as from an earlier version
asks = xagents_ray.A2C(envs, policy, lr=1e-30, quiet=True)._models.write(
    pathlib.Path(), {"env": "Pendulum-v1", "seed": 1})
assert np.load(asks["weights"][0]).files.count("action_scaling") == 0
"""
THREADS = """
import tensorflow as tf
tf.config.threading.set_intra_op_parallelism_threads(3)
"""
MISTAKES = """
import pathlib, warnings
from tensorflow.python.keras import layers, models
from xagents_ray.extend import named_weights, register_initializer, write_weights

def refused(function, words):
    try:
        function()
    except xagents_ray.UserError as error:
        assert words in str(error), error
    else:
        raise AssertionError(words)

envs = create_envs("CartPole-v1", 2, preprocess=False)
wrong = ModelReader(path, [3, 1], (4,)).build_model()
refused(lambda: xagents_ray.A2C(envs, wrong).fit(max_steps=9, local=True),
        "give ModelReader output_units=[2, 1] and input_shape=(4,)")
refused(lambda: ModelReader(path, [3, 1], (4,), seed=-1), "--seed must be")
refused(lambda: xagents_ray.A2C(envs, "net.h5").model, "is made when training starts")
refused(lambda: read().load_weights("missing.tf"), "missing.tf: no such weights file")

def warned(function, words):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = function()
    assert any(words in str(each.message) for each in found), found
    return result

q = xagents_ray.agents["dqn"]["model"]["ann"][0]
q = ModelReader(q, [2], (4,)).build_model()
before = q.get_weights()
duel = {"dueling": True, "buffer_max_size": 64, "quiet": True}
agent = xagents_ray.DQN(envs, q, **duel)
refused(agent.play, "learned nothing yet")
warned(lambda: agent.fit(max_steps=40, local=True), "this model keeps its own")
assert all(map(np.array_equal, q.get_weights(), before))
x = np.random.default_rng(1).normal(size=[50, 4]).astype(np.float32)
learned = agent.policy.act(x)
np.testing.assert_array_equal(np.argmax(agent.model(x), -1), learned)
agent.policy.save("dueling.npz")
warned(lambda: q.load_weights("dueling.npz"), "is of another network than")
assert all(map(np.array_equal, q.get_weights(), before))
again = xagents_ray.DQN(envs, q, **duel)
np.testing.assert_array_equal(again.policy.act(x), learned)
start = again._models.write(pathlib.Path(), again.settings)
assert start == {"weights": ["dueling.npz"]}
assert all(map(np.array_equal, again.model.get_weights(), agent.model.get_weights()))
acts = xagents_ray.DQN(envs, q).policy.act(x)  # the file says that it is dueling
np.testing.assert_array_equal(acts, learned)
write_weights("plain.npz", {k: x.numpy() for k, x in named_weights(q).items()})
assert q.load_weights("plain.npz") is q and q.weights_path is None
refused(lambda: xagents_ray.DQN(envs, q, **duel).fit(max_steps=9, local=True),
        "which the weights of this model lack")
refused(xagents_ray.DQN(envs, q, **duel).play, "the weights of this model lack")
warned(lambda: q.load_weights("dueling.npz"), "is of another network than")
q.set_weights(before)  # these replace the file's
acts = xagents_ray.DQN(envs, q).policy.act(x)
np.testing.assert_array_equal(acts, np.argmax(q(x), -1))

old = layers.Input((4,))  # of another Keras: training converts it
old = models.Model(old, [layers.Dense(n)(old) for n in (2, 1)])
old = xagents_ray.A2C(envs, old)
assert not old._models.has_unfilled
refused(lambda: old.model, "is made when training starts")

class Tiny(keras.initializers.RandomNormal):
    def __init__(self, seed):
        super().__init__(0.0, 1e-6, seed)

ModelReader.initializers["tiny"] = Tiny
ModelReader.initializers["he_normal"] = keras.initializers.HeNormal
assert {"orthogonal", "glorot_uniform"} <= ModelReader.initializers.keys()
with open("tiny.cfg", "w") as file:
    file.write("[dense-0]\\nunits=8\\ninitializer=tiny\\nactivation=mish\\ncommon=1\\n"
               "[dense-1]\\noutput=1\\ninitializer=HeNormal\\n[dense-2]\\noutput=1\\n")
tiny = ModelReader("tiny.cfg", [2, 1], (4,)).build_model()
assert 0 < np.abs(tiny.get_weights()[0]).max() < 1e-4
xagents_ray.A2C(envs, tiny, lr=0.01, quiet=True).fit(max_steps=40, local=True)
assert np.abs(tiny.get_weights()[0]).max() > 1e-3
threads = tf.config.threading  # neither a reader nor a run replaces the user's
assert threads.get_intra_op_parallelism_threads() == 3
assert threads.get_inter_op_parallelism_threads() == 0
"""


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(MODELS + A2C, id="a2c", marks=pytest.mark.slow),
        pytest.param(
            MODELS + ACTORS_AND_CRITICS, id="actors and critics", marks=pytest.mark.slow
        ),
        pytest.param(THREADS + MODELS + MISTAKES, id="mistakes"),
    ],
)
def test_models_of_agents(program: str) -> None:
    done = forked.run(["-c", program], 240)
    assert done.returncode == 0, done.stderr
