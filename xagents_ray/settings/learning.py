"""Options of every algorithm: optimizer, precision and normalization."""

from xagents_ray.settings import from_python, schedules
from xagents_ray.settings.options import fraction, option, positive, shared

gamma = shared(
    fraction, "Discount factor", known_as=("discount", "discount_factor"), common=True
)
optimizer = shared(
    option,
    "Optimizer of all networks; rmsprop averages squared gradients by --beta2",
    choices=("adam", "rmsprop"),
    takes="KerasOptimizer",
    to_plain=from_python.keras_optimizer,
    hp_type="categorical",
)
lr = shared(
    positive,
    "Learning rate, or a schedule such as linear:3e-4:0; it goes over --max-steps, or "
    "through points, a fraction of the run and the rate there, 0:3e-4,0.5:1e-4,1:0",
    known_as=("learning_rate", "step_size"),
    scheduled=True,
    to_plain=schedules.plain_schedule,
    takes="ScheduleLike",
    common=True,
)
beta1 = shared(
    fraction, "Beta1 passed to a tensorflow.keras.optimizers.Optimizer", high=0.999999
)
beta2 = shared(
    fraction, "Beta2 passed to a tensorflow.keras.optimizers.Optimizer", high=0.9999999
)
opt_epsilon = shared(
    positive,
    "Epsilon passed to a tensorflow.keras.optimizers.Optimizer",
    known_as=("adam_eps", "adam_epsilon"),
)
precision = shared(
    option,
    "Numbers that the learner's networks compute in; weights, losses and what "
    "acts stay float32. Faster only on CPUs and GPUs made for bfloat16",
    choices=("float32", "bfloat16"),
    known_as=("dtype", "mixed_precision", "bf16"),
)
lr_decay = shared(
    option,
    "If specified, learning rates fall linearly to 0 over --max-steps",
    needs_max_steps=True,
)
normalize_observations = shared(
    option,
    "If specified, observation vectors are shifted and scaled by the running "
    "mean and deviation of each number, and clipped to 10",
    known_as=("normalize_obs", "norm_obs"),
    acts=True,
    common=True,
)
normalize_rewards = shared(
    option,
    "If specified, rewards for learning are divided by the running deviation "
    "of discounted returns, and clipped to 10",
    known_as=("normalize_reward", "norm_reward"),
)
