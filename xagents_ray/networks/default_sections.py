"""The default network of an observation with several arrays, as sections."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import VECTOR
from xagents_ray.networks.inputs import NetworkInputs
from xagents_ray.networks.section import INPUT, Section
from xagents_ray.networks.small_images import fit_to_image


def join_defaults(
    path: Path,
    image: Sequence[Section],
    vector: Sequence[Section],
    inputs: NetworkInputs,
) -> list[Section]:
    """Return sections that join all images and vectors before the image file's head.

    Each image has convolutions of its own, fitted to its size, and the joined vectors
    have the first layer of the vector file. What follows the convolutions reads all.

    Args:
        path: path of the image file, for messages.
        image: sections of the default file for images; one is `flatten`.
        vector: sections of the default file for vectors.
        inputs: the network's inputs.
    """
    kinds = [section.kind for section in image]
    if "flatten" not in kinds:
        raise UserError(
            f"{path}: reads one array, and this environment's observation has several: "
            "give a network that has [input-NAME] sections."
        )
    end, numbers = kinds.index("flatten") + 1, Counter[str]()
    sections: list[Section] = []
    joined: list[str] = []

    def add(section: Section, **more: str) -> None:
        number = numbers[section.kind]
        numbers[section.kind] += 1
        sections.append(section.copy(f"{section.kind}-{number}", **more))

    for name, part in inputs.parts.items():
        if name == VECTOR or len(part.shape) == 3:
            sections.append(Section(path, f"{INPUT}-{name}", {}))
            own = vector[:1] if name == VECTOR else image[:end]
            begin = len(sections)
            for section in own:
                add(section)
            if name != VECTOR:
                fit_to_image(sections[begin:], part.shape)
            joined.append(sections[-1].name)
    for place, section in enumerate(image[end:]):
        add(section, **({} if place else {"from": ",".join(joined)}))
    return sections
