"""Which GPUs TensorFlow can use."""

import tensorflow as tf


def usable() -> list[str]:
    """Return the names of the GPUs on which a learner would run."""
    gpus = tf.config.list_physical_devices("GPU")
    details = map(tf.config.experimental.get_device_details, gpus)
    return [str(each.get("device_name", "GPU")) for each in details]
