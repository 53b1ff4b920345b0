"""The settings of every agent; `python -m xagents_ray.commands.typed` writes this."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict, overload

from typing_extensions import Unpack

from xagents_ray.algorithms.definition import AgentName
from xagents_ray.compat.agent import CompatAgent
from xagents_ray.core.schedule import ScheduleLike
from xagents_ray.watch.callbacks import OwnCallbacks
from xagents_ray.watch.result import Result
from xagents_ray.tuning.seeds_result import SeedsResult
from xagents_ray.settings.from_python import KerasOptimizer
from xagents_ray.tuning.space import Space
from xagents_ray.tuning.sweep import TuneResult
import gymnasium.envs.registration

__all__ = [
    "A2C",
    "A3C",
    "ACER",
    "DDPG",
    "DQN",
    "IMPALA",
    "PPO",
    "SAC",
    "TD3",
    "TRPO",
    "agents",
]

agents: dict[str, dict[str, Any]]

class A2C(CompatAgent): ...
class A3C(CompatAgent): ...
class ACER(CompatAgent): ...
class DDPG(CompatAgent): ...
class DQN(CompatAgent): ...
class IMPALA(CompatAgent): ...
class PPO(CompatAgent): ...
class SAC(CompatAgent): ...
class TD3(CompatAgent): ...
class TRPO(CompatAgent): ...

class Both_All(TypedDict, total=False):
    action_masks: bool
    """Take only actions that the environment's masks allow, if it gives any:
    info["action_mask"], a method action_masks(), or the key action_mask of a Dict
    observation; --no-action-masks ignores them. Default: True."""
    actor_cpus: float | None
    """Cores that each env actor claims; default: an even share of the free ones that
    the learner leaves (≥ 0.0001)."""
    actor_timeout: float | None
    """Replace an env actor whose rollout takes longer; default: the largest of 60, 3
    times the longest and 10 median rollouts so far, and at least 600 before its first
    one has ended (seconds, > 0)."""
    address: str | Path | None
    """Ray cluster to train on: host:port, or auto for this machine's; default: the
    environment variable RAY_ADDRESS; local starts an own Ray in spite of it."""
    allow_slow_precision: bool
    """If specified, --precision bfloat16 is allowed where it is slower than float32.
    Default: False."""
    asynchronous: bool
    """If specified, each env actor runs at its own pace; on-policy, what is older than
    --policy-lag is dropped; a replay buffer takes rollouts of any age; not
    reproducible; on Ray the default of asynchronous agents, unless --policy-lag is
    given. Default: False."""
    checkpoint_every: int
    """Write a checkpoint of the whole run every n steps (env steps, ≥ 1). Default:
    100000."""
    checkpoint_replay: bool
    """If specified, the newest checkpoint holds the replay buffer too. Default:
    False."""
    config: str | Path | None
    """YAML file of settings, which may name the agent, too; the config.yaml of a run
    gives a new run all of its settings, but not its name, directory and output files.
    It overrides a preset, and flags override it."""
    dashboard: bool
    """If specified, Ray's dashboard is served on 127.0.0.1, and a link that opens it is
    printed. Default: False."""
    display_precision: int
    """Number of decimals to be displayed (≥ 0 and ≤ 10). Default: 2."""
    divergence_monitoring_steps: int | None
    """Steps after which, plateau and early stopping are active (env steps, ≥ 1)."""
    early_stop_patience: int
    """Minimum plateau reduces to stop training (reduces, ≥ 1). Default: 3."""
    env: str | Path | Callable[..., Any] | gymnasium.envs.registration.EnvSpec | None
    """Gymnasium environment id, package.module:EnvId for one that importing the module
    registers, or package.module:factory for your own; from Python also a class, a
    function that makes one, or a Gymnasium EnvSpec."""
    env_kwargs: str | Path | Sequence[str | Path] | Mapping[str, Any] | None
    """Arguments of the environment, key=value …, or one JSON object; a dict from
    Python."""
    eval_episodes: int
    """Episodes of one evaluation during training (episodes, ≥ 1). Default: 10."""
    eval_every: int | None
    """Evaluate greedily every n steps, and choose the best weights by that (env steps,
    ≥ 1)."""
    eval_max_steps: int | None
    """An evaluation or film gives up when an episode is longer; default: where no time
    limit is known to end it, 10 times the longest episode in training, and at least
    10,000 (env steps, ≥ 1)."""
    feature_maker: str | Path | Callable[..., Any] | None
    """module:function of the environment that makes a Keras model of features, from
    Python the function; networks that have no file and read observations get their
    outputs after it."""
    inference: Literal["auto", "actor", "onnx", "learner"]
    """Who computes the network that acts: actor, each env actor in NumPy; onnx, each
    env actor, its convolutions by ONNX Runtime; learner, the learner's process for the
    env actors of its machine, on its GPU if it has one. auto is learner for images with
    a GPU, and on Ray for your own Keras models that NumPy can't compute; else onnx
    where that is installed and faster (auto|actor|onnx|learner). Default: auto."""
    jit: Literal["auto", "on", "off"]
    """Compile learning phases with XLA; auto does on a GPU, and on CPUs where the
    networks are small (auto|on|off). Default: auto."""
    keep_checkpoints: int
    """Newest checkpoints that are kept, in addition to the best (≥ 1). Default: 3."""
    learner_gpus: float | None
    """GPUs of each learner; default: 1 if there are any. Other processes use none (≥
    0)."""
    learner_threads: int | None
    """Threads of the learner; default: one for small networks, on which more would wait
    for each other; one for each of several medium ones; all cores for large ones (≥
    1)."""
    learner_timeout: float
    """How long to wait for Ray to place and start a new learner, when the node of the
    previous one is lost, before the run ends (seconds, > 0). Default: 1800.0."""
    local: bool
    """If specified, everything runs in this process, without Ray. Default: False."""
    log_frequency: int | None
    """Log progress every n episodes (episodes, ≥ 1)."""
    lr_decay: bool
    """If specified, learning rates fall linearly to 0 over --max-steps. Default:
    False."""
    max_actor_restarts: int
    """How many times in a row an env actor is replaced, without a finished rollout,
    before it is given up; errors at the same line count until an episode ends (≥ 0).
    Default: 3."""
    n_actors: int | Literal["auto"] | None
    """Number of env actors, which share the environments; default: the fewest with the
    shortest rounds on the free cores; with --policy-lag a learner that uses several
    cores has one of them. auto: one per core, as nodes join and leave (≥ 1)."""
    n_learners: int
    """Number of learners on one machine, each of which computes a share of the rows of
    every update, on a GPU of its own if there are as many; they learn what one would (≥
    1). Default: 1."""
    normalize_observations: bool
    """If specified, observation vectors are shifted and scaled by the running mean and
    deviation of each number, and clipped to 10. Default: False."""
    normalize_rewards: bool
    """If specified, rewards for learning are divided by the running deviation of
    discounted returns, and clipped to 10. Default: False."""
    plateau_reduce_factor: float
    """Factor multiplied by current learning rate when there is a plateau (> 0 and ≤ 1).
    Default: 0.9."""
    plateau_reduce_patience: int
    """Minimum non-improvements to reduce lr; the mean reward is checked once per
    --n-envs episodes (checks, ≥ 1). Default: 10."""
    policy_lag: int
    """Age of the weights that a rollout acts with, so that acting and learning overlap;
    with 0 they alternate (weights versions, ≥ 0 and ≤ 1000). Default: 0."""
    precision: Literal["float32", "bfloat16"]
    """Numbers that the learner's networks compute in; weights, losses and what acts
    stay float32. Faster only on CPUs and GPUs made for bfloat16 (float32|bfloat16).
    Default: float32."""
    preprocess: bool
    """If specified, observations are treated as Atari frames: every 4th frame, gray,
    84x84; rewards are clipped for learning and reported raw. Default: False."""
    preset: str | Path | bool | None
    """Without a value, tuned settings for this environment, of which `xagents-ray
    presets` says what they reached; or the name of others, such as rainbow of dqn and
    gpu of ppo, or a file. Other flags override it."""
    profile: bool
    """If specified, progress says where the time goes, and what limits the run.
    Default: False."""
    quiet: bool
    """If specified, no messages by the agent will be displayed to the console. Default:
    False."""
    reward_buffer_size: int
    """Size of the total reward buffer, used for calculating the mean reward (episodes,
    ≥ 1). Default: 100."""
    round_deadline: float | None
    """Longest wait for the rollouts of a round; a late one counts for the next round if
    --policy-lag allows it; default: wait for all (seconds, > 0)."""
    run_dir: str | Path
    """Directory that holds a directory for each run. Default: runs."""
    seed: int | None
    """Random seed; makes the run reproducible on this machine (on a GPU, by operations
    that are slower) (≥ 0 and ≤ 2147483647)."""
    state_to_input: str | Path | Callable[[Any], Any] | None
    """Function of an observation, module:function, that returns what the network reads;
    from Python also the function itself."""
    tensorboard: bool
    """Write TensorBoard events; --no-tensorboard leaves them out. Default: True."""
    tensorboard_names: Literal["xagents", "sb3"]
    """Names of the scalars in TensorBoard: xagents-ray's, or those of Stable-
    Baselines3, with its signs (xagents|sb3). Default: xagents."""
    vectorization: Literal["auto", "vector", "sync", "async", "envpool"]
    """How environments are stepped together; auto picks the fastest right one
    (auto|vector|sync|async|envpool). Default: auto."""
    weights: str | Path | Sequence[str | Path] | None
    """Path(s) to model(s) weight(s) to start from: .tf, .weights.h5, .npz, or whole
    Keras models, .keras or .h5."""
    worker_env: str | Path | Sequence[str | Path] | Mapping[str, str | None] | None
    """Environment variables of workers and trials on Ray: NAME=VALUE, or NAME for the
    value here, which config.yaml doesn't hold; a dict from Python."""
    wrappers: str | Path | Sequence[str | Path] | Sequence[Callable[..., Any]] | None
    """Wrappers of each environment, module:Class, the first one innermost; from Python
    also classes and functions of an environment."""

class Both_A2C_A3C_IMPALA_PPO_TRPO(TypedDict, total=False):
    action_scaling: bool
    """Draw each component of continuous actions that has two finite bounds in the range
    from -1 to 1, and scale it to them; --no-action-scaling draws it in the
    environment's units, which weights of earlier versions need. Default: True."""

class Train_A2C_A3C_IMPALA_PPO_TRPO(TypedDict, total=False):
    advantage_epsilon: float
    """Value added to the standard deviation that advantages are divided by (> 0).
    Default: 1e-08."""
    init_log_std: float
    """Logarithm of the standard deviation that continuous actions start with, before
    --action-scaling, or that of the numbers in the matrices of --sde-frequency; it is
    learned from then on (≥ -20 and ≤ 20). Default: 0.0."""

class Train_All(TypedDict, total=False):
    beta1: float
    """Beta1 passed to a tensorflow.keras.optimizers.Optimizer (≥ 0 and ≤ 0.999999).
    Default: 0.9."""
    beta2: float
    """Beta2 passed to a tensorflow.keras.optimizers.Optimizer (≥ 0 and ≤ 0.9999999).
    Default: 0.999."""
    callbacks: str | Path | Sequence[str | Path] | OwnCallbacks | None
    """Own code that is called during the run: package.module:name of an
    xagents_ray.Callback, of another object with methods such as on_episode, or of a
    function that is called after each rollout; from Python also the objects
    themselves."""
    checkpoints: str | Path | Sequence[str | Path] | None
    """Path(s) to new model(s) to which weights will be saved at each new best mean
    reward over a full reward buffer, or evaluation with --eval-every: .tf, .weights.h5,
    .npz, or .keras for whole Keras models."""
    frame_stack: int
    """Newest frames that one image observation shows (frames, ≥ 1 and ≤ 16). Default:
    4."""
    gamma: float
    """Discount factor (≥ 0 and ≤ 1). Default: 0.99."""
    history_checkpoint: str | Path | None
    """Path to .parquet file to save training history."""
    max_frame: bool
    """If specified, preprocessing takes the maximum of the last two frames. Default:
    False."""
    max_steps: int | None
    """Number of environment steps after which training is stopped (env steps, ≥ 1)."""
    monitor_session: str | Path | None
    """Wandb session name."""
    n_envs: int
    """Number of environments to create (≥ 1). Default: 1."""
    name: str | Path | None
    """Name of the run's own directory; default: time and seed."""
    opt_epsilon: float
    """Epsilon passed to a tensorflow.keras.optimizers.Optimizer (> 0). Default:
    1e-07."""
    optimizer: Literal["adam", "rmsprop"] | KerasOptimizer
    """Optimizer of all networks; rmsprop averages squared gradients by --beta2
    (adam|rmsprop). Default: adam."""
    resume: str | Path | None
    """Directory of a run to resume from its newest valid checkpoint, or last."""
    target_reward: float | None
    """Mean reward over a full reward buffer at which training is stopped."""

class Train_A2C_A3C_ACER_IMPALA_PPO(TypedDict, total=False):
    buffer_initial_size: int | None
    """Replay buffer size at which learning from it starts; default: a tenth of the
    maximum (trajectories, ≥ 1)."""
    entropy_coef: float | ScheduleLike
    """Entropy coefficient for loss calculation, or a schedule as --lr takes it (≥ 0).
    Default: 0.01."""

class Train_A2C_A3C_IMPALA_PPO(TypedDict, total=False):
    buffer_max_size: int
    """Maximum replay buffer size, each trajectory --n-steps of one environment, of all
    environments together (trajectories, ≥ 1). Default: 1000."""
    replay_ratio: float
    """Mean number of updates from a replay buffer of trajectories per rollout,
    corrected by V-trace; the number is drawn from a Poisson distribution each time; 0
    for no replay (updates, ≥ 0). Default: 0.0."""

class Both_A2C_A3C_ACER_DDPG_IMPALA_PPO_SAC_TD3_TRPO(TypedDict, total=False):
    critic_inputs: str | Path | Sequence[str] | None
    """Names of inputs of a Dict or Tuple observation, separated by commas, that only
    values and critics read, and not the policy, which acts without them; the default
    network then has separate layers for the policy."""

class Train_A2C_A3C_PPO(TypedDict, total=False):
    grad_norm: float
    """Largest global norm of the gradient; larger ones are scaled to it (> 0). Default:
    0.5."""

class Train_A2C_A3C_IMPALA_TRPO(TypedDict, total=False):
    lam: float
    """GAE-Lambda for advantage estimation (≥ 0 and ≤ 1). Default: 1.0."""

class Train_A2C_A3C_ACER_DDPG_DQN_IMPALA_PPO_TD3(TypedDict, total=False):
    lr: float | ScheduleLike
    """Learning rate, or a schedule such as linear:3e-4:0; it goes over --max-steps, or
    through points, a fraction of the run and the rate there, 0:3e-4,0.5:1e-4,1:0 (> 0).
    Default: 0.0007."""

class Both_A2C_A3C_ACER_DQN_IMPALA_PPO_TRPO(TypedDict, total=False):
    memory: str | Path | None
    """Recurrent layer with this many units after the layers that the outputs of the
    default network share, for environments that don't show everything at once:
    lstm:128, gru:64; sections [lstm-0] and [gru-0] add one to a network of your own."""

class Both_A2C_A3C_ACER_DQN_IMPALA_PPO(TypedDict, total=False):
    model: str | Path | Callable[..., Any] | None
    """Path to model .cfg or .keras file; from Python also a Keras model, or a function
    of the environment that makes one."""

class Train_A2C_A3C(TypedDict, total=False):
    n_steps: int
    """Transition steps of each environment per update (vector steps, ≥ 1). Default:
    5."""

class Both_A2C_A3C_ACER_IMPALA_PPO_TRPO(TypedDict, total=False):
    noisy: Literal["factorised", "independent"] | None
    """Noise on the weights of dense layers, with a learned standard deviation, which
    each environment draws for a whole rollout; its actions are sampled from the policy
    that results (factorised|independent)."""

class Train_A2C_A3C_ACER_DQN_IMPALA_PPO_TRPO(TypedDict, total=False):
    noisy_sigma: float | None
    """Initial standard deviation of this noise; if factorised, divided by the square
    root of the layer's inputs. Default: 0.5, or 0.017 if independent (> 0)."""

class Both_A2C_A3C_IMPALA(TypedDict, total=False):
    normalize_advantages: bool
    """If specified, the policy's advantages are shifted and scaled to a mean of 0 and a
    deviation of 1. Default: False."""

class Both_A2C_A3C_ACER_IMPALA_PPO(TypedDict, total=False):
    online_learning: bool
    """Learn from each rollout when it arrives; --no-online-learning learns from the
    replay buffer alone. Default: True."""

class Both_A2C_A3C_ACER_DDPG_DQN_IMPALA_PPO_SAC_TD3(TypedDict, total=False):
    replay_shards: int
    """Ray actors that share the replay buffer, each with some of the environments;
    spread over the nodes of a cluster (≥ 1). Default: 1."""

class Train_A2C_A3C_IMPALA_PPO_SAC_TRPO(TypedDict, total=False):
    sde_frequency: int | None
    """State-dependent exploration (gSDE): continuous actions get noise that is linear
    in the policy's features, with a matrix that each environment draws at the beginning
    of an episode and every so many steps; -1 for the steps of a rollout; default:
    independent noise in each step (steps, ≥ -1 and ≤ 1000000)."""

class Both_A2C_A3C_IMPALA_PPO(TypedDict, total=False):
    separate_networks: bool
    """If specified, the policy and the value share no layers: the value has copies of
    those before the policy's output. Default: False."""

class Train_A2C_A3C_ACER_IMPALA_PPO_TRPO(TypedDict, total=False):
    value_loss_coef: float
    """Value loss coefficient for value loss calculation (≥ 0). Default: 0.5."""

class Train_ACER_IMPALA(TypedDict, total=False):
    n_steps: int
    """Transition steps of each environment per update (vector steps, ≥ 1). Default:
    20."""

class Both_ACER(TypedDict, total=False):
    trust_region: bool
    """Keep the policy near an average of its past ones. Default: True."""

class Both_DDPG_SAC_TD3_TRPO(TypedDict, total=False):
    actor_model: str | Path | Callable[..., Any] | None
    """Path to actor model .cfg or .keras file; from Python also a Keras model, or a
    function of the environment that makes one."""
    critic_model: str | Path | Callable[..., Any] | None
    """Path to critic model .cfg or .keras file; from Python also a Keras model, or a
    function of the environment that makes one."""

class Train_DDPG_DQN_TD3(TypedDict, total=False):
    buffer_batch_size: int
    """Replay buffer batch size (≥ 1). Default: 32."""
    buffer_initial_size: int | None
    """Replay buffer size at which learning starts; default: a tenth of the maximum
    (transitions, ≥ 1)."""
    buffer_max_size: int
    """Maximum replay buffer size, of all environments together (transitions, ≥ 1).
    Default: 10000."""

class Train_DDPG_SAC_TD3(TypedDict, total=False):
    critic_lr: float | None
    """Learning rate of the critic; default: that of --lr (> 0)."""
    random_steps: int | None
    """Env steps of all environments together whose actions are uniformly random, at the
    beginning; default: those before learning starts (env steps, ≥ 0)."""
    tau: float
    """Value used for syncing target model weights (> 0 and ≤ 1). Default: 0.005."""
    train_frequency: int
    """Env steps of all environments together per --gradient-steps (env steps, ≥ 1).
    Default: 1."""

class Train_DDPG_DQN_SAC_TD3(TypedDict, total=False):
    grad_norm: float | None
    """Largest global norm of each network's gradient; larger ones are scaled to it;
    default: no limit (> 0)."""
    gradient_steps: int
    """Updates per --train-frequency (updates, ≥ 1). Default: 1."""
    n_step: int
    """Steps of an environment whose rewards a target sums before it takes a value from
    the target network (steps, ≥ 1 and ≤ 1000). Default: 1."""
    priority_alpha: float
    """Power of a transition's error in its priority; 0 samples uniformly (≥ 0 and ≤ 1).
    Default: 0.6."""
    priority_beta: float
    """Power of the weights that correct for --prioritized; rises to 1 over --max-steps,
    if given (≥ 0 and ≤ 1). Default: 0.4."""
    rollout_length: int
    """Steps of all environments between two learning phases (vector steps, ≥ 1).
    Default: 16."""

class Both_DDPG_DQN_SAC_TD3(TypedDict, total=False):
    her: Literal["future", "final", "episode"] | bool | None
    """Hindsight experience replay, for goal environments: most sampled transitions get
    a goal that their episode achieved at this or a later step (future), at its last
    step (final), or at any step (episode) (future|final|episode)."""
    her_goals: int
    """Sampled transitions with an achieved goal, for each one that keeps its own (≥ 1).
    Default: 4."""
    prioritized: bool
    """If specified, transitions are sampled in proportion to a power of their last
    errors, and their losses weighted to correct for that. Default: False."""

class Both_DDPG_SAC_TD3(TypedDict, total=False):
    layer_norm: bool
    """If specified, hidden layers of critics are normalized before their activations
    (layer norm), which keeps values from running away where --gradient-steps makes many
    updates of few env steps. Default: False."""

class Train_DDPG_TD3(TypedDict, total=False):
    noise: Literal["normal", "ou", "parameter"]
    """Independent noise at each step, Ornstein-Uhlenbeck noise (theta 0.15, dt 0.01,
    sigma --step-noise-coef) that starts at 0 in each episode, or noise on the actor's
    weights that lasts for an episode and adapts until actions differ by --step-noise-
    coef (normal|ou|parameter). Default: normal."""
    step_noise_coef: float
    """Standard deviation of the noise added to actions, which span -1 to 1 (≥ 0).
    Default: 0.1."""

class Both_DQN(TypedDict, total=False):
    atoms: int
    """Number of equally spaced returns in a distribution (≥ 2). Default: 51."""
    distributional: bool
    """If specified, learns the distribution of returns (C51), not only its mean.
    Default: False."""
    double: bool
    """If specified, DDQN will be used. Default: False."""
    dueling: bool
    """If specified, the network ends in two streams, of values and advantages. Default:
    False."""
    epsilon_ladder: bool
    """If specified, each of the N environments has a constant epsilon of its own:
    0.4^(1 + 7i/(N - 1)) for environment i, counted from 0. Default: False."""
    noisy: Literal["factorised", "independent"] | None
    """Noise on the weights of dense layers, with a learned standard deviation, which
    explores in place of epsilon once learning begins; before, actions are random
    (factorised|independent)."""
    v_max: float
    """Largest return of a distribution. Default: 10.0."""
    v_min: float
    """Smallest return of a distribution. Default: -10.0."""

class Both_IMPALA(TypedDict, total=False):
    replay_share: float
    """Share of each update's trajectories that come from a replay buffer, beside those
    of the newest round; 0 for none (≥ 0 and ≤ 0.9). Default: 0.0."""

class Both_PPO(TypedDict, total=False):
    clip_decay: bool
    """If specified, --clip-norm falls linearly to 0 over --max-steps. Default:
    False."""
    decoupled_loss: bool
    """If specified, older weights that acted are corrected for by importance weights,
    and ratios are clipped about the newest weights before the updates; for --policy-lag
    and --asynchronous. Default: False."""

class Both_PPO_TRPO(TypedDict, total=False):
    normalize_advantages: bool
    """Shift and scale the policy's advantages to a mean of 0 and a deviation of 1;
    --no-normalize-advantages learns from them as they are. Default: True."""

class Both_SAC(TypedDict, total=False):
    clip_mean: float
    """Largest magnitude of the means with --sde-frequency, before the tanh; 0 for no
    bound, which runs and weights of earlier versions have (≥ 0). Default: 2.0."""
    n_step_entropy: bool
    """Include the entropy of the steps in between in targets of several steps
    (--n-step), from the log-densities stored with their actions; --no-n-step-entropy
    sums only their rewards. Default: True."""
    target_entropy: float | None
    """Entropy of actions, which span -1 to 1, that --alpha auto aims at; default: minus
    the number of an action's components (nats)."""

class Train_SAC_TD3(TypedDict, total=False):
    critics: int
    """Number of critics. Targets take the smaller value of two of them; with more, each
    update draws which two, as in REDQ (5 to 10, with --gradient-steps 20) (≥ 1).
    Default: 2."""

class Both_TRPO(TypedDict, total=False):
    cg_iterations: int
    """Conjugate gradient iterations per train step (≥ 1). Default: 10."""

class Tune_A2C_A3C_IMPALA_PPO_TRPO(TypedDict, total=False):
    advantage_epsilon: float | Sequence[float] | Space
    """Value added to the standard deviation that advantages are divided by (> 0).
    Default: 1e-08."""
    init_log_std: float | Sequence[float] | Space
    """Logarithm of the standard deviation that continuous actions start with, before
    --action-scaling, or that of the numbers in the matrices of --sde-frequency; it is
    learned from then on (≥ -20 and ≤ 20). Default: 0.0."""

class Tune_All(TypedDict, total=False):
    beta1: float | Sequence[float] | Space
    """Beta1 passed to a tensorflow.keras.optimizers.Optimizer (≥ 0 and ≤ 0.999999).
    Default: 0.9."""
    beta2: float | Sequence[float] | Space
    """Beta2 passed to a tensorflow.keras.optimizers.Optimizer (≥ 0 and ≤ 0.9999999).
    Default: 0.999."""
    frame_stack: int | Sequence[int] | Space
    """Newest frames that one image observation shows (frames, ≥ 1 and ≤ 16). Default:
    4."""
    gamma: float | Sequence[float] | Space
    """Discount factor (≥ 0 and ≤ 1). Default: 0.99."""
    max_frame: bool | Sequence[bool] | Space
    """If specified, preprocessing takes the maximum of the last two frames. Default:
    False."""
    n_envs: int | Sequence[int] | Space
    """Number of environments to create (≥ 1). Default: 1."""
    n_jobs: int
    """Trials that run in parallel and share the cores and GPUs (≥ 1). Default: 1."""
    n_trials: int
    """Trials of the study when the sweep ends: complete, pruned and failed ones (≥ 1).
    Default: 1."""
    non_silent: bool
    """If specified, the messages of trials and of Optuna are printed, in place of the
    table. Default: False."""
    opt_epsilon: float | Sequence[float] | Space
    """Epsilon passed to a tensorflow.keras.optimizers.Optimizer (> 0). Default:
    1e-07."""
    optimizer: (
        Literal["adam", "rmsprop"]
        | Sequence[Literal["adam", "rmsprop"]]
        | Space
        | KerasOptimizer
    )
    """Optimizer of all networks; rmsprop averages squared gradients by --beta2
    (adam|rmsprop). Default: adam."""
    scheduler: Literal["median", "asha", "none"]
    """What ends bad trials early: the median of the others at the same step, successive
    halving, or nothing (median|asha|none). Default: median."""
    storage: str | Path | None
    """Database URL of the study, sqlite:///FILE, postgresql://… or mysql://…; default:
    the environment variable XAGENTS_RAY_STORAGE, for a URL with a password, or sqlite
    in the sweep's directory."""
    study: str | Path | None
    """Name of the Optuna study; one that exists is resumed; default: agent and time."""
    trial_steps: int
    """Maximum steps for a trial (env steps, ≥ 1). Default: 500000."""
    warmup_steps: int | None
    """Steps of a trial before --scheduler median may prune it; default: a tenth of
    --trial-steps, and as many as fill --reward-buffer-size (env steps, ≥ 0)."""
    warmup_trials: int
    """Complete trials before --scheduler median begins to prune (≥ 0). Default: 5."""

class Tune_A2C_A3C_ACER_IMPALA_PPO(TypedDict, total=False):
    buffer_initial_size: int | Sequence[int] | Space | None
    """Replay buffer size at which learning from it starts; default: a tenth of the
    maximum (trajectories, ≥ 1)."""
    entropy_coef: float | Sequence[float] | Space | ScheduleLike
    """Entropy coefficient for loss calculation, or a schedule as --lr takes it (≥ 0).
    Default: 0.01."""

class Tune_A2C_A3C_IMPALA_PPO(TypedDict, total=False):
    buffer_max_size: int | Sequence[int] | Space
    """Maximum replay buffer size, each trajectory --n-steps of one environment, of all
    environments together (trajectories, ≥ 1). Default: 1000."""
    replay_ratio: float | Sequence[float] | Space
    """Mean number of updates from a replay buffer of trajectories per rollout,
    corrected by V-trace; the number is drawn from a Poisson distribution each time; 0
    for no replay (updates, ≥ 0). Default: 0.0."""

class Tune_A2C_A3C_PPO(TypedDict, total=False):
    grad_norm: float | Sequence[float] | Space
    """Largest global norm of the gradient; larger ones are scaled to it (> 0). Default:
    0.5."""

class Tune_A2C_A3C_IMPALA_TRPO(TypedDict, total=False):
    lam: float | Sequence[float] | Space
    """GAE-Lambda for advantage estimation (≥ 0 and ≤ 1). Default: 1.0."""

class Tune_A2C_A3C_ACER_DDPG_DQN_IMPALA_PPO_TD3(TypedDict, total=False):
    lr: float | Sequence[float] | Space | ScheduleLike
    """Learning rate, or a schedule such as linear:3e-4:0; it goes over --max-steps, or
    through points, a fraction of the run and the rate there, 0:3e-4,0.5:1e-4,1:0 (> 0).
    Default: 0.0007."""

class Tune_A2C_A3C(TypedDict, total=False):
    n_steps: int | Sequence[int] | Space
    """Transition steps of each environment per update (vector steps, ≥ 1). Default:
    5."""

class Tune_A2C_A3C_ACER_DQN_IMPALA_PPO_TRPO(TypedDict, total=False):
    noisy_sigma: float | Sequence[float] | Space | None
    """Initial standard deviation of this noise; if factorised, divided by the square
    root of the layer's inputs. Default: 0.5, or 0.017 if independent (> 0)."""

class Tune_A2C_A3C_IMPALA_PPO_SAC_TRPO(TypedDict, total=False):
    sde_frequency: int | Sequence[int] | Space | None
    """State-dependent exploration (gSDE): continuous actions get noise that is linear
    in the policy's features, with a matrix that each environment draws at the beginning
    of an episode and every so many steps; -1 for the steps of a rollout; default:
    independent noise in each step (steps, ≥ -1 and ≤ 1000000)."""

class Tune_A2C_A3C_ACER_IMPALA_PPO_TRPO(TypedDict, total=False):
    value_loss_coef: float | Sequence[float] | Space
    """Value loss coefficient for value loss calculation (≥ 0). Default: 0.5."""

class Tune_ACER_IMPALA(TypedDict, total=False):
    n_steps: int | Sequence[int] | Space
    """Transition steps of each environment per update (vector steps, ≥ 1). Default:
    20."""

class Tune_DDPG_DQN_TD3(TypedDict, total=False):
    buffer_batch_size: int | Sequence[int] | Space
    """Replay buffer batch size (≥ 1). Default: 32."""
    buffer_initial_size: int | Sequence[int] | Space | None
    """Replay buffer size at which learning starts; default: a tenth of the maximum
    (transitions, ≥ 1)."""
    buffer_max_size: int | Sequence[int] | Space
    """Maximum replay buffer size, of all environments together (transitions, ≥ 1).
    Default: 10000."""

class Tune_DDPG_SAC_TD3(TypedDict, total=False):
    critic_lr: float | Sequence[float] | Space | None
    """Learning rate of the critic; default: that of --lr (> 0)."""
    random_steps: int | Sequence[int] | Space | None
    """Env steps of all environments together whose actions are uniformly random, at the
    beginning; default: those before learning starts (env steps, ≥ 0)."""
    tau: float | Sequence[float] | Space
    """Value used for syncing target model weights (> 0 and ≤ 1). Default: 0.005."""
    train_frequency: int | Sequence[int] | Space
    """Env steps of all environments together per --gradient-steps (env steps, ≥ 1).
    Default: 1."""

class Tune_DDPG_DQN_SAC_TD3(TypedDict, total=False):
    grad_norm: float | Sequence[float] | Space | None
    """Largest global norm of each network's gradient; larger ones are scaled to it;
    default: no limit (> 0)."""
    gradient_steps: int | Sequence[int] | Space
    """Updates per --train-frequency (updates, ≥ 1). Default: 1."""
    n_step: int | Sequence[int] | Space
    """Steps of an environment whose rewards a target sums before it takes a value from
    the target network (steps, ≥ 1 and ≤ 1000). Default: 1."""
    priority_alpha: float | Sequence[float] | Space
    """Power of a transition's error in its priority; 0 samples uniformly (≥ 0 and ≤ 1).
    Default: 0.6."""
    priority_beta: float | Sequence[float] | Space
    """Power of the weights that correct for --prioritized; rises to 1 over --max-steps,
    if given (≥ 0 and ≤ 1). Default: 0.4."""
    rollout_length: int | Sequence[int] | Space
    """Steps of all environments between two learning phases (vector steps, ≥ 1).
    Default: 16."""

class Tune_DDPG_TD3(TypedDict, total=False):
    noise: (
        Literal["normal", "ou", "parameter"]
        | Sequence[Literal["normal", "ou", "parameter"]]
        | Space
    )
    """Independent noise at each step, Ornstein-Uhlenbeck noise (theta 0.15, dt 0.01,
    sigma --step-noise-coef) that starts at 0 in each episode, or noise on the actor's
    weights that lasts for an episode and adapts until actions differ by --step-noise-
    coef (normal|ou|parameter). Default: normal."""
    step_noise_coef: float | Sequence[float] | Space
    """Standard deviation of the noise added to actions, which span -1 to 1 (≥ 0).
    Default: 0.1."""

class Tune_SAC_TD3(TypedDict, total=False):
    critics: int | Sequence[int] | Space
    """Number of critics. Targets take the smaller value of two of them; with more, each
    update draws which two, as in REDQ (5 to 10, with --gradient-steps 20) (≥ 1).
    Default: 2."""

class TrainA2C(Both_All, Both_A2C_A3C_IMPALA_PPO_TRPO, Train_A2C_A3C_IMPALA_PPO_TRPO,
    Train_All, Train_A2C_A3C_ACER_IMPALA_PPO, Train_A2C_A3C_IMPALA_PPO,
    Both_A2C_A3C_ACER_DDPG_IMPALA_PPO_SAC_TD3_TRPO, Train_A2C_A3C_PPO,
    Train_A2C_A3C_IMPALA_TRPO, Train_A2C_A3C_ACER_DDPG_DQN_IMPALA_PPO_TD3,
    Both_A2C_A3C_ACER_DQN_IMPALA_PPO_TRPO, Both_A2C_A3C_ACER_DQN_IMPALA_PPO,
    Train_A2C_A3C, Both_A2C_A3C_ACER_IMPALA_PPO_TRPO,
    Train_A2C_A3C_ACER_DQN_IMPALA_PPO_TRPO, Both_A2C_A3C_IMPALA,
    Both_A2C_A3C_ACER_IMPALA_PPO, Both_A2C_A3C_ACER_DDPG_DQN_IMPALA_PPO_SAC_TD3,
    Train_A2C_A3C_IMPALA_PPO_SAC_TRPO, Both_A2C_A3C_IMPALA_PPO,
    Train_A2C_A3C_ACER_IMPALA_PPO_TRPO, total=False):
    ...

class TrainA3C(Both_All, Both_A2C_A3C_IMPALA_PPO_TRPO, Train_A2C_A3C_IMPALA_PPO_TRPO,
    Train_All, Train_A2C_A3C_ACER_IMPALA_PPO, Train_A2C_A3C_IMPALA_PPO,
    Both_A2C_A3C_ACER_DDPG_IMPALA_PPO_SAC_TD3_TRPO, Train_A2C_A3C_PPO,
    Train_A2C_A3C_IMPALA_TRPO, Train_A2C_A3C_ACER_DDPG_DQN_IMPALA_PPO_TD3,
    Both_A2C_A3C_ACER_DQN_IMPALA_PPO_TRPO, Both_A2C_A3C_ACER_DQN_IMPALA_PPO,
    Train_A2C_A3C, Both_A2C_A3C_ACER_IMPALA_PPO_TRPO,
    Train_A2C_A3C_ACER_DQN_IMPALA_PPO_TRPO, Both_A2C_A3C_IMPALA,
    Both_A2C_A3C_ACER_IMPALA_PPO, Both_A2C_A3C_ACER_DDPG_DQN_IMPALA_PPO_SAC_TD3,
    Train_A2C_A3C_IMPALA_PPO_SAC_TRPO, Both_A2C_A3C_IMPALA_PPO,
    Train_A2C_A3C_ACER_IMPALA_PPO_TRPO, total=False):
    ...

class TrainACER(Both_All, Train_All, Train_A2C_A3C_ACER_IMPALA_PPO,
    Both_A2C_A3C_ACER_DDPG_IMPALA_PPO_SAC_TD3_TRPO,
    Train_A2C_A3C_ACER_DDPG_DQN_IMPALA_PPO_TD3, Both_A2C_A3C_ACER_DQN_IMPALA_PPO_TRPO,
    Both_A2C_A3C_ACER_DQN_IMPALA_PPO, Both_A2C_A3C_ACER_IMPALA_PPO_TRPO,
    Train_A2C_A3C_ACER_DQN_IMPALA_PPO_TRPO, Both_A2C_A3C_ACER_IMPALA_PPO,
    Both_A2C_A3C_ACER_DDPG_DQN_IMPALA_PPO_SAC_TD3, Train_A2C_A3C_ACER_IMPALA_PPO_TRPO,
    Train_ACER_IMPALA, Both_ACER, total=False):
    buffer_batch_size: int
    """Trajectories of each environment per update; only 1 (trajectories, ≥ 1). Default:
    1."""
    buffer_max_size: int
    """Maximum replay buffer size, each trajectory --n-steps of one environment, of all
    environments together (trajectories, ≥ 1). Default: 10000."""
    delta: float
    """Trust region's bound on how fast the policy leaves the average one (≥ 0).
    Default: 1.0."""
    ema_alpha: float
    """Decay of the average network, which moves after each update (≥ 0 and ≤ 1).
    Default: 0.99."""
    epsilon: float
    """Value added to what importance ratios and the trust region divide by, and to
    probabilities within logarithms (> 0). Default: 1e-06."""
    grad_norm: float
    """Largest global norm of the gradient; larger ones are scaled to it (> 0). Default:
    10.0."""
    importance_c: float
    """Importance weight truncation parameter (≥ 0). Default: 10.0."""
    kl_weight: float
    """Weight of the KL divergence from the average policy in the loss, in place of the
    trust region; 0 for the trust region (≥ 0). Default: 0.0."""
    replay_ratio: float
    """Mean number of updates from the replay buffer per rollout; the number is drawn
    from a Poisson distribution each time (updates, ≥ 0). Default: 4.0."""

class TrainDDPG(Both_All, Train_All, Both_A2C_A3C_ACER_DDPG_IMPALA_PPO_SAC_TD3_TRPO,
    Train_A2C_A3C_ACER_DDPG_DQN_IMPALA_PPO_TD3,
    Both_A2C_A3C_ACER_DDPG_DQN_IMPALA_PPO_SAC_TD3, Both_DDPG_SAC_TD3_TRPO,
    Train_DDPG_DQN_TD3, Train_DDPG_SAC_TD3, Train_DDPG_DQN_SAC_TD3,
    Both_DDPG_DQN_SAC_TD3, Both_DDPG_SAC_TD3, Train_DDPG_TD3, total=False):
    ...

class TrainDQN(Both_All, Train_All, Train_A2C_A3C_ACER_DDPG_DQN_IMPALA_PPO_TD3,
    Both_A2C_A3C_ACER_DQN_IMPALA_PPO_TRPO, Both_A2C_A3C_ACER_DQN_IMPALA_PPO,
    Train_A2C_A3C_ACER_DQN_IMPALA_PPO_TRPO,
    Both_A2C_A3C_ACER_DDPG_DQN_IMPALA_PPO_SAC_TD3, Train_DDPG_DQN_TD3,
    Train_DDPG_DQN_SAC_TD3, Both_DDPG_DQN_SAC_TD3, Both_DQN, total=False):
    burn_in: int
    """With memory, steps at the beginning of each replayed sequence, of --rollout-
    length steps, that only bring the state of the recurrent layers up to date, because
    older weights left the stored one (steps, ≥ 0). Default: 0."""
    epsilon_decay_steps: int
    """Number of steps for `epsilon-start` to reach `epsilon-end` (env steps, ≥ 1).
    Default: 150000."""
    epsilon_end: float
    """Epsilon end value (minimum exploration rate) (≥ 0 and ≤ 1). Default: 0.02."""
    epsilon_start: float
    """Starting epsilon value which is used to control random exploration (≥ 0 and ≤ 1).
    Default: 1.0."""
    target_sync_steps: int
    """Sync target models every n steps (env steps, ≥ 1). Default: 1000."""
    tau: float
    """Fraction of the distance to the online model that the target model moves at each
    sync; 1 copies it (> 0 and ≤ 1). Default: 1.0."""
    train_frequency: int
    """Env steps of all environments together per --gradient-steps (env steps, ≥ 1).
    Default: 4."""

class TrainIMPALA(Both_All, Both_A2C_A3C_IMPALA_PPO_TRPO, Train_A2C_A3C_IMPALA_PPO_TRPO,
    Train_All, Train_A2C_A3C_ACER_IMPALA_PPO, Train_A2C_A3C_IMPALA_PPO,
    Both_A2C_A3C_ACER_DDPG_IMPALA_PPO_SAC_TD3_TRPO, Train_A2C_A3C_IMPALA_TRPO,
    Train_A2C_A3C_ACER_DDPG_DQN_IMPALA_PPO_TD3, Both_A2C_A3C_ACER_DQN_IMPALA_PPO_TRPO,
    Both_A2C_A3C_ACER_DQN_IMPALA_PPO, Both_A2C_A3C_ACER_IMPALA_PPO_TRPO,
    Train_A2C_A3C_ACER_DQN_IMPALA_PPO_TRPO, Both_A2C_A3C_IMPALA,
    Both_A2C_A3C_ACER_IMPALA_PPO, Both_A2C_A3C_ACER_DDPG_DQN_IMPALA_PPO_SAC_TD3,
    Train_A2C_A3C_IMPALA_PPO_SAC_TRPO, Both_A2C_A3C_IMPALA_PPO,
    Train_A2C_A3C_ACER_IMPALA_PPO_TRPO, Train_ACER_IMPALA, Both_IMPALA, total=False):
    c_clip: float
    """Largest importance ratio that passes V-trace's later errors back; a lower one
    reduces the variance and slows the values down (> 0). Default: 1.0."""
    grad_norm: float
    """Largest global norm of the gradient; larger ones are scaled to it (> 0). Default:
    40.0."""
    rho_clip: float
    """Largest importance ratio that weights V-trace's errors and the policy's gradient;
    a lower one draws values towards those of the policy that acted (> 0). Default:
    1.0."""

class TrainPPO(Both_All, Both_A2C_A3C_IMPALA_PPO_TRPO, Train_A2C_A3C_IMPALA_PPO_TRPO,
    Train_All, Train_A2C_A3C_ACER_IMPALA_PPO, Train_A2C_A3C_IMPALA_PPO,
    Both_A2C_A3C_ACER_DDPG_IMPALA_PPO_SAC_TD3_TRPO, Train_A2C_A3C_PPO,
    Train_A2C_A3C_ACER_DDPG_DQN_IMPALA_PPO_TD3, Both_A2C_A3C_ACER_DQN_IMPALA_PPO_TRPO,
    Both_A2C_A3C_ACER_DQN_IMPALA_PPO, Both_A2C_A3C_ACER_IMPALA_PPO_TRPO,
    Train_A2C_A3C_ACER_DQN_IMPALA_PPO_TRPO, Both_A2C_A3C_ACER_IMPALA_PPO,
    Both_A2C_A3C_ACER_DDPG_DQN_IMPALA_PPO_SAC_TD3, Train_A2C_A3C_IMPALA_PPO_SAC_TRPO,
    Both_A2C_A3C_IMPALA_PPO, Train_A2C_A3C_ACER_IMPALA_PPO_TRPO, Both_PPO,
    Both_PPO_TRPO, total=False):
    clip_norm: float | ScheduleLike
    """Clipping of the importance ratio, or a schedule as --lr takes it (> 0). Default:
    0.1."""
    clip_value: float | None
    """Clipping of the value's change, in units of the rewards learned from; 0 for none;
    default: that of --clip-norm, with its decay (reward, ≥ 0)."""
    desired_kl: float | None
    """KL divergence that the learning rate adapts to: before each update it is divided
    by 1.5 if the policy's divergence, as for --target-kl, is above twice this,
    multiplied by 1.5 if it is below half, and stays from 1e-5 to 1e-2; default: it
    isn't adapted (nats, > 0)."""
    lam: float
    """GAE-Lambda for advantage estimation (≥ 0 and ≤ 1). Default: 0.95."""
    mini_batches: int
    """Number of mini-batches to use per pass (≥ 1). Default: 4."""
    n_steps: int
    """Transition steps of each environment per update (vector steps, ≥ 1). Default:
    128."""
    ppo_epochs: int
    """Passes over the batch per training step (≥ 1). Default: 4."""
    target_kl: float | None
    """No more updates from a batch once the policy's KL divergence from the one that
    acted, or with --decoupled-loss or --replay-ratio from the newest weights before the
    updates, is above 1.5 times this; default: no limit (nats, > 0)."""

class TrainSAC(Both_All, Train_All, Both_A2C_A3C_ACER_DDPG_IMPALA_PPO_SAC_TD3_TRPO,
    Both_A2C_A3C_ACER_DDPG_DQN_IMPALA_PPO_SAC_TD3, Train_A2C_A3C_IMPALA_PPO_SAC_TRPO,
    Both_DDPG_SAC_TD3_TRPO, Train_DDPG_SAC_TD3, Train_DDPG_DQN_SAC_TD3,
    Both_DDPG_DQN_SAC_TD3, Both_DDPG_SAC_TD3, Both_SAC, Train_SAC_TD3, total=False):
    alpha: str | Path | float
    """Entropy coefficient, or auto: it starts at 1 and is learned, so that the policy's
    entropy meets --target-entropy. Default: auto."""
    buffer_batch_size: int
    """Replay buffer batch size (≥ 1). Default: 256."""
    buffer_initial_size: int
    """Replay buffer size at which learning starts (transitions, ≥ 1). Default: 1000."""
    buffer_max_size: int
    """Maximum replay buffer size, of all environments together (transitions, ≥ 1).
    Default: 1000000."""
    init_log_std: float
    """Logarithm of the standard deviation that the numbers in the matrices of --sde-
    frequency start with; it is learned from then on (≥ -20 and ≤ 20). Default: -3.0."""
    lr: float | ScheduleLike
    """Learning rate, or a schedule such as linear:3e-4:0; it goes over --max-steps, or
    through points, a fraction of the run and the rate there, 0:3e-4,0.5:1e-4,1:0 (> 0).
    Default: 0.0003."""
    policy_delay: int | None
    """Critic updates for each update of the actor and of alpha; default: 1, or with
    more than two critics, as in REDQ, all those of one env step: --gradient-steps
    divided by --train-frequency (updates, ≥ 1)."""

class TrainTD3(Both_All, Train_All, Both_A2C_A3C_ACER_DDPG_IMPALA_PPO_SAC_TD3_TRPO,
    Train_A2C_A3C_ACER_DDPG_DQN_IMPALA_PPO_TD3,
    Both_A2C_A3C_ACER_DDPG_DQN_IMPALA_PPO_SAC_TD3, Both_DDPG_SAC_TD3_TRPO,
    Train_DDPG_DQN_TD3, Train_DDPG_SAC_TD3, Train_DDPG_DQN_SAC_TD3,
    Both_DDPG_DQN_SAC_TD3, Both_DDPG_SAC_TD3, Train_DDPG_TD3, Train_SAC_TD3,
    total=False):
    noise_clip: float
    """Target noise clipping value (≥ 0). Default: 0.5."""
    policy_delay: int
    """Critic updates for each update of the actor and the target networks (updates, ≥
    1). Default: 2."""
    policy_noise_coef: float
    """Standard deviation of the noise added to target actions (≥ 0). Default: 0.2."""

class TrainTRPO(Both_All, Both_A2C_A3C_IMPALA_PPO_TRPO, Train_A2C_A3C_IMPALA_PPO_TRPO,
    Train_All, Both_A2C_A3C_ACER_DDPG_IMPALA_PPO_SAC_TD3_TRPO,
    Train_A2C_A3C_IMPALA_TRPO, Both_A2C_A3C_ACER_DQN_IMPALA_PPO_TRPO,
    Both_A2C_A3C_ACER_IMPALA_PPO_TRPO, Train_A2C_A3C_ACER_DQN_IMPALA_PPO_TRPO,
    Train_A2C_A3C_IMPALA_PPO_SAC_TRPO, Train_A2C_A3C_ACER_IMPALA_PPO_TRPO,
    Both_DDPG_SAC_TD3_TRPO, Both_PPO_TRPO, Both_TRPO, total=False):
    actor_iterations: int
    """Steps that the line search tries per train step, each half of the last (≥ 1).
    Default: 10."""
    cg_damping: float
    """Damping that is added to the Fisher matrix (≥ 0). Default: 0.001."""
    cg_residual_tolerance: float
    """Squared residual at which conjugate gradients stop (≥ 0). Default: 1e-10."""
    critic_iterations: int
    """Passes of the critic over the batch (≥ 1). Default: 3."""
    critic_lr: float | None
    """Learning rate of the critic, which replaces --lr (> 0)."""
    entropy_coef: float | ScheduleLike
    """Entropy coefficient for loss calculation, or a schedule as --lr takes it (≥ 0).
    Default: 0.0."""
    fvp_n_steps: int
    """Every n-th sample is used to calculate the Fisher-vector product (≥ 1). Default:
    5."""
    grad_norm: float
    """Largest global norm of the critic's gradient (> 0). Default: 0.5."""
    lr: float | ScheduleLike
    """Learning rate of the critic; --max-kl bounds the policy's step (> 0). Default:
    0.0007."""
    max_kl: float
    """KL divergence that a step aims at; the line search accepts 1.5 times this (> 0).
    Default: 0.001."""
    mini_batches: int
    """Number of mini-batches to use per pass of the critic (≥ 1). Default: 4."""
    n_steps: int
    """Transition steps of each environment per update (vector steps, ≥ 1). Default:
    512."""

class TuneA2C(Both_All, Both_A2C_A3C_IMPALA_PPO_TRPO,
    Both_A2C_A3C_ACER_DDPG_IMPALA_PPO_SAC_TD3_TRPO,
    Both_A2C_A3C_ACER_DQN_IMPALA_PPO_TRPO, Both_A2C_A3C_ACER_DQN_IMPALA_PPO,
    Both_A2C_A3C_ACER_IMPALA_PPO_TRPO, Both_A2C_A3C_IMPALA,
    Both_A2C_A3C_ACER_IMPALA_PPO, Both_A2C_A3C_ACER_DDPG_DQN_IMPALA_PPO_SAC_TD3,
    Both_A2C_A3C_IMPALA_PPO, Tune_A2C_A3C_IMPALA_PPO_TRPO, Tune_All,
    Tune_A2C_A3C_ACER_IMPALA_PPO, Tune_A2C_A3C_IMPALA_PPO, Tune_A2C_A3C_PPO,
    Tune_A2C_A3C_IMPALA_TRPO, Tune_A2C_A3C_ACER_DDPG_DQN_IMPALA_PPO_TD3, Tune_A2C_A3C,
    Tune_A2C_A3C_ACER_DQN_IMPALA_PPO_TRPO, Tune_A2C_A3C_IMPALA_PPO_SAC_TRPO,
    Tune_A2C_A3C_ACER_IMPALA_PPO_TRPO, total=False):
    ...

class TuneA3C(Both_All, Both_A2C_A3C_IMPALA_PPO_TRPO,
    Both_A2C_A3C_ACER_DDPG_IMPALA_PPO_SAC_TD3_TRPO,
    Both_A2C_A3C_ACER_DQN_IMPALA_PPO_TRPO, Both_A2C_A3C_ACER_DQN_IMPALA_PPO,
    Both_A2C_A3C_ACER_IMPALA_PPO_TRPO, Both_A2C_A3C_IMPALA,
    Both_A2C_A3C_ACER_IMPALA_PPO, Both_A2C_A3C_ACER_DDPG_DQN_IMPALA_PPO_SAC_TD3,
    Both_A2C_A3C_IMPALA_PPO, Tune_A2C_A3C_IMPALA_PPO_TRPO, Tune_All,
    Tune_A2C_A3C_ACER_IMPALA_PPO, Tune_A2C_A3C_IMPALA_PPO, Tune_A2C_A3C_PPO,
    Tune_A2C_A3C_IMPALA_TRPO, Tune_A2C_A3C_ACER_DDPG_DQN_IMPALA_PPO_TD3, Tune_A2C_A3C,
    Tune_A2C_A3C_ACER_DQN_IMPALA_PPO_TRPO, Tune_A2C_A3C_IMPALA_PPO_SAC_TRPO,
    Tune_A2C_A3C_ACER_IMPALA_PPO_TRPO, total=False):
    ...

class TuneACER(Both_All, Both_A2C_A3C_ACER_DDPG_IMPALA_PPO_SAC_TD3_TRPO,
    Both_A2C_A3C_ACER_DQN_IMPALA_PPO_TRPO, Both_A2C_A3C_ACER_DQN_IMPALA_PPO,
    Both_A2C_A3C_ACER_IMPALA_PPO_TRPO, Both_A2C_A3C_ACER_IMPALA_PPO,
    Both_A2C_A3C_ACER_DDPG_DQN_IMPALA_PPO_SAC_TD3, Both_ACER, Tune_All,
    Tune_A2C_A3C_ACER_IMPALA_PPO, Tune_A2C_A3C_ACER_DDPG_DQN_IMPALA_PPO_TD3,
    Tune_A2C_A3C_ACER_DQN_IMPALA_PPO_TRPO, Tune_A2C_A3C_ACER_IMPALA_PPO_TRPO,
    Tune_ACER_IMPALA, total=False):
    buffer_batch_size: int | Sequence[int] | Space
    """Trajectories of each environment per update; only 1 (trajectories, ≥ 1). Default:
    1."""
    buffer_max_size: int | Sequence[int] | Space
    """Maximum replay buffer size, each trajectory --n-steps of one environment, of all
    environments together (trajectories, ≥ 1). Default: 10000."""
    delta: float | Sequence[float] | Space
    """Trust region's bound on how fast the policy leaves the average one (≥ 0).
    Default: 1.0."""
    ema_alpha: float | Sequence[float] | Space
    """Decay of the average network, which moves after each update (≥ 0 and ≤ 1).
    Default: 0.99."""
    epsilon: float | Sequence[float] | Space
    """Value added to what importance ratios and the trust region divide by, and to
    probabilities within logarithms (> 0). Default: 1e-06."""
    grad_norm: float | Sequence[float] | Space
    """Largest global norm of the gradient; larger ones are scaled to it (> 0). Default:
    10.0."""
    importance_c: float | Sequence[float] | Space
    """Importance weight truncation parameter (≥ 0). Default: 10.0."""
    kl_weight: float | Sequence[float] | Space
    """Weight of the KL divergence from the average policy in the loss, in place of the
    trust region; 0 for the trust region (≥ 0). Default: 0.0."""
    replay_ratio: float | Sequence[float] | Space
    """Mean number of updates from the replay buffer per rollout; the number is drawn
    from a Poisson distribution each time (updates, ≥ 0). Default: 4.0."""

class TuneDDPG(Both_All, Both_A2C_A3C_ACER_DDPG_IMPALA_PPO_SAC_TD3_TRPO,
    Both_A2C_A3C_ACER_DDPG_DQN_IMPALA_PPO_SAC_TD3, Both_DDPG_SAC_TD3_TRPO,
    Both_DDPG_DQN_SAC_TD3, Both_DDPG_SAC_TD3, Tune_All,
    Tune_A2C_A3C_ACER_DDPG_DQN_IMPALA_PPO_TD3, Tune_DDPG_DQN_TD3, Tune_DDPG_SAC_TD3,
    Tune_DDPG_DQN_SAC_TD3, Tune_DDPG_TD3, total=False):
    ...

class TuneDQN(Both_All, Both_A2C_A3C_ACER_DQN_IMPALA_PPO_TRPO,
    Both_A2C_A3C_ACER_DQN_IMPALA_PPO, Both_A2C_A3C_ACER_DDPG_DQN_IMPALA_PPO_SAC_TD3,
    Both_DDPG_DQN_SAC_TD3, Both_DQN, Tune_All,
    Tune_A2C_A3C_ACER_DDPG_DQN_IMPALA_PPO_TD3, Tune_A2C_A3C_ACER_DQN_IMPALA_PPO_TRPO,
    Tune_DDPG_DQN_TD3, Tune_DDPG_DQN_SAC_TD3, total=False):
    burn_in: int | Sequence[int] | Space
    """With memory, steps at the beginning of each replayed sequence, of --rollout-
    length steps, that only bring the state of the recurrent layers up to date, because
    older weights left the stored one (steps, ≥ 0). Default: 0."""
    epsilon_decay_steps: int | Sequence[int] | Space
    """Number of steps for `epsilon-start` to reach `epsilon-end` (env steps, ≥ 1).
    Default: 150000."""
    epsilon_end: float | Sequence[float] | Space
    """Epsilon end value (minimum exploration rate) (≥ 0 and ≤ 1). Default: 0.02."""
    epsilon_start: float | Sequence[float] | Space
    """Starting epsilon value which is used to control random exploration (≥ 0 and ≤ 1).
    Default: 1.0."""
    target_sync_steps: int | Sequence[int] | Space
    """Sync target models every n steps (env steps, ≥ 1). Default: 1000."""
    tau: float | Sequence[float] | Space
    """Fraction of the distance to the online model that the target model moves at each
    sync; 1 copies it (> 0 and ≤ 1). Default: 1.0."""
    train_frequency: int | Sequence[int] | Space
    """Env steps of all environments together per --gradient-steps (env steps, ≥ 1).
    Default: 4."""

class TuneIMPALA(Both_All, Both_A2C_A3C_IMPALA_PPO_TRPO,
    Both_A2C_A3C_ACER_DDPG_IMPALA_PPO_SAC_TD3_TRPO,
    Both_A2C_A3C_ACER_DQN_IMPALA_PPO_TRPO, Both_A2C_A3C_ACER_DQN_IMPALA_PPO,
    Both_A2C_A3C_ACER_IMPALA_PPO_TRPO, Both_A2C_A3C_IMPALA,
    Both_A2C_A3C_ACER_IMPALA_PPO, Both_A2C_A3C_ACER_DDPG_DQN_IMPALA_PPO_SAC_TD3,
    Both_A2C_A3C_IMPALA_PPO, Both_IMPALA, Tune_A2C_A3C_IMPALA_PPO_TRPO, Tune_All,
    Tune_A2C_A3C_ACER_IMPALA_PPO, Tune_A2C_A3C_IMPALA_PPO, Tune_A2C_A3C_IMPALA_TRPO,
    Tune_A2C_A3C_ACER_DDPG_DQN_IMPALA_PPO_TD3, Tune_A2C_A3C_ACER_DQN_IMPALA_PPO_TRPO,
    Tune_A2C_A3C_IMPALA_PPO_SAC_TRPO, Tune_A2C_A3C_ACER_IMPALA_PPO_TRPO,
    Tune_ACER_IMPALA, total=False):
    c_clip: float | Sequence[float] | Space
    """Largest importance ratio that passes V-trace's later errors back; a lower one
    reduces the variance and slows the values down (> 0). Default: 1.0."""
    grad_norm: float | Sequence[float] | Space
    """Largest global norm of the gradient; larger ones are scaled to it (> 0). Default:
    40.0."""
    rho_clip: float | Sequence[float] | Space
    """Largest importance ratio that weights V-trace's errors and the policy's gradient;
    a lower one draws values towards those of the policy that acted (> 0). Default:
    1.0."""

class TunePPO(Both_All, Both_A2C_A3C_IMPALA_PPO_TRPO,
    Both_A2C_A3C_ACER_DDPG_IMPALA_PPO_SAC_TD3_TRPO,
    Both_A2C_A3C_ACER_DQN_IMPALA_PPO_TRPO, Both_A2C_A3C_ACER_DQN_IMPALA_PPO,
    Both_A2C_A3C_ACER_IMPALA_PPO_TRPO, Both_A2C_A3C_ACER_IMPALA_PPO,
    Both_A2C_A3C_ACER_DDPG_DQN_IMPALA_PPO_SAC_TD3, Both_A2C_A3C_IMPALA_PPO, Both_PPO,
    Both_PPO_TRPO, Tune_A2C_A3C_IMPALA_PPO_TRPO, Tune_All, Tune_A2C_A3C_ACER_IMPALA_PPO,
    Tune_A2C_A3C_IMPALA_PPO, Tune_A2C_A3C_PPO,
    Tune_A2C_A3C_ACER_DDPG_DQN_IMPALA_PPO_TD3, Tune_A2C_A3C_ACER_DQN_IMPALA_PPO_TRPO,
    Tune_A2C_A3C_IMPALA_PPO_SAC_TRPO, Tune_A2C_A3C_ACER_IMPALA_PPO_TRPO, total=False):
    clip_norm: float | Sequence[float] | Space | ScheduleLike
    """Clipping of the importance ratio, or a schedule as --lr takes it (> 0). Default:
    0.1."""
    clip_value: float | Sequence[float] | Space | None
    """Clipping of the value's change, in units of the rewards learned from; 0 for none;
    default: that of --clip-norm, with its decay (reward, ≥ 0)."""
    desired_kl: float | Sequence[float] | Space | None
    """KL divergence that the learning rate adapts to: before each update it is divided
    by 1.5 if the policy's divergence, as for --target-kl, is above twice this,
    multiplied by 1.5 if it is below half, and stays from 1e-5 to 1e-2; default: it
    isn't adapted (nats, > 0)."""
    lam: float | Sequence[float] | Space
    """GAE-Lambda for advantage estimation (≥ 0 and ≤ 1). Default: 0.95."""
    mini_batches: int | Sequence[int] | Space
    """Number of mini-batches to use per pass (≥ 1). Default: 4."""
    n_steps: int | Sequence[int] | Space
    """Transition steps of each environment per update (vector steps, ≥ 1). Default:
    128."""
    ppo_epochs: int | Sequence[int] | Space
    """Passes over the batch per training step (≥ 1). Default: 4."""
    target_kl: float | Sequence[float] | Space | None
    """No more updates from a batch once the policy's KL divergence from the one that
    acted, or with --decoupled-loss or --replay-ratio from the newest weights before the
    updates, is above 1.5 times this; default: no limit (nats, > 0)."""

class TuneSAC(Both_All, Both_A2C_A3C_ACER_DDPG_IMPALA_PPO_SAC_TD3_TRPO,
    Both_A2C_A3C_ACER_DDPG_DQN_IMPALA_PPO_SAC_TD3, Both_DDPG_SAC_TD3_TRPO,
    Both_DDPG_DQN_SAC_TD3, Both_DDPG_SAC_TD3, Both_SAC, Tune_All,
    Tune_A2C_A3C_IMPALA_PPO_SAC_TRPO, Tune_DDPG_SAC_TD3, Tune_DDPG_DQN_SAC_TD3,
    Tune_SAC_TD3, total=False):
    alpha: str | Path | Sequence[str | Path] | Space | float
    """Entropy coefficient, or auto: it starts at 1 and is learned, so that the policy's
    entropy meets --target-entropy. Default: auto."""
    buffer_batch_size: int | Sequence[int] | Space
    """Replay buffer batch size (≥ 1). Default: 256."""
    buffer_initial_size: int | Sequence[int] | Space
    """Replay buffer size at which learning starts (transitions, ≥ 1). Default: 1000."""
    buffer_max_size: int | Sequence[int] | Space
    """Maximum replay buffer size, of all environments together (transitions, ≥ 1).
    Default: 1000000."""
    init_log_std: float | Sequence[float] | Space
    """Logarithm of the standard deviation that the numbers in the matrices of --sde-
    frequency start with; it is learned from then on (≥ -20 and ≤ 20). Default: -3.0."""
    lr: float | Sequence[float] | Space | ScheduleLike
    """Learning rate, or a schedule such as linear:3e-4:0; it goes over --max-steps, or
    through points, a fraction of the run and the rate there, 0:3e-4,0.5:1e-4,1:0 (> 0).
    Default: 0.0003."""
    policy_delay: int | Sequence[int] | Space | None
    """Critic updates for each update of the actor and of alpha; default: 1, or with
    more than two critics, as in REDQ, all those of one env step: --gradient-steps
    divided by --train-frequency (updates, ≥ 1)."""

class TuneTD3(Both_All, Both_A2C_A3C_ACER_DDPG_IMPALA_PPO_SAC_TD3_TRPO,
    Both_A2C_A3C_ACER_DDPG_DQN_IMPALA_PPO_SAC_TD3, Both_DDPG_SAC_TD3_TRPO,
    Both_DDPG_DQN_SAC_TD3, Both_DDPG_SAC_TD3, Tune_All,
    Tune_A2C_A3C_ACER_DDPG_DQN_IMPALA_PPO_TD3, Tune_DDPG_DQN_TD3, Tune_DDPG_SAC_TD3,
    Tune_DDPG_DQN_SAC_TD3, Tune_DDPG_TD3, Tune_SAC_TD3, total=False):
    noise_clip: float | Sequence[float] | Space
    """Target noise clipping value (≥ 0). Default: 0.5."""
    policy_delay: int | Sequence[int] | Space
    """Critic updates for each update of the actor and the target networks (updates, ≥
    1). Default: 2."""
    policy_noise_coef: float | Sequence[float] | Space
    """Standard deviation of the noise added to target actions (≥ 0). Default: 0.2."""

class TuneTRPO(Both_All, Both_A2C_A3C_IMPALA_PPO_TRPO,
    Both_A2C_A3C_ACER_DDPG_IMPALA_PPO_SAC_TD3_TRPO,
    Both_A2C_A3C_ACER_DQN_IMPALA_PPO_TRPO, Both_A2C_A3C_ACER_IMPALA_PPO_TRPO,
    Both_DDPG_SAC_TD3_TRPO, Both_PPO_TRPO, Both_TRPO, Tune_A2C_A3C_IMPALA_PPO_TRPO,
    Tune_All, Tune_A2C_A3C_IMPALA_TRPO, Tune_A2C_A3C_ACER_DQN_IMPALA_PPO_TRPO,
    Tune_A2C_A3C_IMPALA_PPO_SAC_TRPO, Tune_A2C_A3C_ACER_IMPALA_PPO_TRPO, total=False):
    actor_iterations: int | Sequence[int] | Space
    """Steps that the line search tries per train step, each half of the last (≥ 1).
    Default: 10."""
    cg_damping: float | Sequence[float] | Space
    """Damping that is added to the Fisher matrix (≥ 0). Default: 0.001."""
    cg_residual_tolerance: float | Sequence[float] | Space
    """Squared residual at which conjugate gradients stop (≥ 0). Default: 1e-10."""
    critic_iterations: int | Sequence[int] | Space
    """Passes of the critic over the batch (≥ 1). Default: 3."""
    critic_lr: float | Sequence[float] | Space | None
    """Learning rate of the critic, which replaces --lr (> 0)."""
    entropy_coef: float | Sequence[float] | Space | ScheduleLike
    """Entropy coefficient for loss calculation, or a schedule as --lr takes it (≥ 0).
    Default: 0.0."""
    fvp_n_steps: int | Sequence[int] | Space
    """Every n-th sample is used to calculate the Fisher-vector product (≥ 1). Default:
    5."""
    grad_norm: float | Sequence[float] | Space
    """Largest global norm of the critic's gradient (> 0). Default: 0.5."""
    lr: float | Sequence[float] | Space | ScheduleLike
    """Learning rate of the critic; --max-kl bounds the policy's step (> 0). Default:
    0.0007."""
    max_kl: float | Sequence[float] | Space
    """KL divergence that a step aims at; the line search accepts 1.5 times this (> 0).
    Default: 0.001."""
    mini_batches: int | Sequence[int] | Space
    """Number of mini-batches to use per pass of the critic (≥ 1). Default: 4."""
    n_steps: int | Sequence[int] | Space
    """Transition steps of each environment per update (vector steps, ≥ 1). Default:
    512."""

@overload
def train(
    agent: Literal["a2c"], *, seeds: Sequence[int], **settings: Unpack[TrainA2C]
) -> SeedsResult: ...
@overload
def train(agent: Literal["a2c"], **settings: Unpack[TrainA2C]) -> Result: ...
@overload
def train(
    agent: Literal["a3c"], *, seeds: Sequence[int], **settings: Unpack[TrainA3C]
) -> SeedsResult: ...
@overload
def train(agent: Literal["a3c"], **settings: Unpack[TrainA3C]) -> Result: ...
@overload
def train(
    agent: Literal["acer"], *, seeds: Sequence[int], **settings: Unpack[TrainACER]
) -> SeedsResult: ...
@overload
def train(agent: Literal["acer"], **settings: Unpack[TrainACER]) -> Result: ...
@overload
def train(
    agent: Literal["ddpg"], *, seeds: Sequence[int], **settings: Unpack[TrainDDPG]
) -> SeedsResult: ...
@overload
def train(agent: Literal["ddpg"], **settings: Unpack[TrainDDPG]) -> Result: ...
@overload
def train(
    agent: Literal["dqn"], *, seeds: Sequence[int], **settings: Unpack[TrainDQN]
) -> SeedsResult: ...
@overload
def train(agent: Literal["dqn"], **settings: Unpack[TrainDQN]) -> Result: ...
@overload
def train(
    agent: Literal["impala"], *, seeds: Sequence[int], **settings: Unpack[TrainIMPALA]
) -> SeedsResult: ...
@overload
def train(agent: Literal["impala"], **settings: Unpack[TrainIMPALA]) -> Result: ...
@overload
def train(
    agent: Literal["ppo"], *, seeds: Sequence[int], **settings: Unpack[TrainPPO]
) -> SeedsResult: ...
@overload
def train(agent: Literal["ppo"], **settings: Unpack[TrainPPO]) -> Result: ...
@overload
def train(
    agent: Literal["sac"], *, seeds: Sequence[int], **settings: Unpack[TrainSAC]
) -> SeedsResult: ...
@overload
def train(agent: Literal["sac"], **settings: Unpack[TrainSAC]) -> Result: ...
@overload
def train(
    agent: Literal["td3"], *, seeds: Sequence[int], **settings: Unpack[TrainTD3]
) -> SeedsResult: ...
@overload
def train(agent: Literal["td3"], **settings: Unpack[TrainTD3]) -> Result: ...
@overload
def train(
    agent: Literal["trpo"], *, seeds: Sequence[int], **settings: Unpack[TrainTRPO]
) -> SeedsResult: ...
@overload
def train(agent: Literal["trpo"], **settings: Unpack[TrainTRPO]) -> Result: ...
@overload
def train(
    agent: AgentName, *, seeds: Sequence[int], **settings: Any
) -> SeedsResult: ...
@overload
def train(agent: AgentName, **settings: Any) -> Result: ...
@overload
def train(
    agent: None = None, *, seeds: Sequence[int], config: str | Path, **settings: Any
) -> SeedsResult: ...
@overload
def train(agent: None = None, *, config: str | Path, **settings: Any) -> Result: ...

@overload
def tune(agent: Literal["a2c"], **settings: Unpack[TuneA2C]) -> TuneResult: ...
@overload
def tune(agent: Literal["a3c"], **settings: Unpack[TuneA3C]) -> TuneResult: ...
@overload
def tune(agent: Literal["acer"], **settings: Unpack[TuneACER]) -> TuneResult: ...
@overload
def tune(agent: Literal["ddpg"], **settings: Unpack[TuneDDPG]) -> TuneResult: ...
@overload
def tune(agent: Literal["dqn"], **settings: Unpack[TuneDQN]) -> TuneResult: ...
@overload
def tune(agent: Literal["impala"], **settings: Unpack[TuneIMPALA]) -> TuneResult: ...
@overload
def tune(agent: Literal["ppo"], **settings: Unpack[TunePPO]) -> TuneResult: ...
@overload
def tune(agent: Literal["sac"], **settings: Unpack[TuneSAC]) -> TuneResult: ...
@overload
def tune(agent: Literal["td3"], **settings: Unpack[TuneTD3]) -> TuneResult: ...
@overload
def tune(agent: Literal["trpo"], **settings: Unpack[TuneTRPO]) -> TuneResult: ...
@overload
def tune(agent: AgentName, **settings: Any) -> TuneResult: ...
@overload
def tune(agent: None = None, *, config: str | Path, **settings: Any) -> TuneResult: ...
