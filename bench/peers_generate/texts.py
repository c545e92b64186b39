"""The prompts. TEXT has more than 512 tokens for a vocabulary of English; it was written for this file."""
import random
import string

SHORT = "The history of bread begins with"

TEXT = """\
The harbour of Lindholm freezes in the second week of January, and for about forty days nothing larger \
than a rowing boat can leave it. The people who live there do not mind. They have repaired their nets in \
the autumn, they have stacked birch wood against the north wall of every house, and the shop has enough \
coffee to last until Easter. On most mornings the only sound is the ice, which groans when the tide lifts \
it and cracks again when the tide goes out.

My grandmother was born in the yellow house beside the church, the third of seven children. She used to \
say that a winter has three parts. In the first part you are pleased to be indoors. In the second part you \
have read all the books, and you quarrel with your brothers about the chair next to the stove. In the third \
part nobody talks at all, because everything has been said, and then one evening in March somebody opens a \
window and you can hear water running under the snow.

"How did you know that it was over?" I asked her once.

"We never did," she said. "We only noticed afterwards that we had stopped counting."

The museum on the hill keeps a record of the ice. It begins in 1871, when a teacher called Anders Holm \
walked out to the lighthouse on the first of every month and drilled a hole with a hand auger. His tables \
are simple: the date, the thickness in centimetres, the direction of the wind, and one word for the sky. In \
1893 the ice was 84 centimetres thick, and a farmer drove two horses and a sledge of stones across the bay \
to build the new pier. In 1949 there was no ice at all, and the priest wrote a sermon about it. Since the \
year 2000 the average has fallen from 46 to 29 centimetres, and the lighthouse is reached by boat on most \
days.

Scientists from the university now visit every winter with a sensor that floats in the water and sends a \
measurement every ten minutes. They compare its numbers with those of the teacher, and they have found that \
his hand auger was accurate to about one centimetre. What they cannot measure is the word for the sky. On \
the day before he died, in February 1912, he wrote: "thickness 51, wind from the east, sky open." Nobody \
knows exactly what he meant, but the children of Lindholm still use the expression when the clouds part \
over the sea and the light comes down in long white bars.
"""


def letters(count, seed=1):
    """A prompt of `count` tokens for the made-up vocabularies of tools/gguf_shapes.py."""
    return "".join(random.Random(seed).choices(string.ascii_lowercase, k=count))
