#include "checks/decoder_text.h"

namespace penstock::checks {
namespace {

constexpr std::string_view kText =
    "The mill stood at the bend of the river, where the water was quick even in August. Old "
    "Martha had kept it since her brother left for the coast, and she knew every sound it made: "
    "the slow groan of the wheel in the morning, the rattle of the sieve, the small dry cough of "
    "the belt when it was about to slip. On the day the inspector came, none of these could be "
    "heard. The wheel had stopped in the night, and the river ran past it as if it had never "
    "turned anything at all.\n\n"
    "\"How long has it been like this?\" he asked.\n\n"
    "\"Since about three,\" said Martha. \"I woke up because it was quiet.\"\n\n"
    "They climbed down the ladder together. A beam of oak, as long as a man and black with age, "
    "had come down with the flood and wedged itself between two of the blades. It took four "
    "people and a horse to pull it out, and when the wheel began to move again, nobody spoke for "
    "a while.\n\n"
    "To change the belt of the sieve:\n"
    "1. Close the gate and wait until the wheel stands still.\n"
    "2. Loosen both screws on the left side of the frame, but do not take them out.\n"
    "3. Lift the old belt off the small pulley first, then off the large one.\n"
    "4. Put on the new belt in the opposite order and tighten the screws until it gives no more "
    "than two centimetres.\n"
    "If the belt still slips after an hour of work, check whether the pulley is worn. A worn "
    "pulley should be replaced, because a tighter belt would only damage the bearing.\n\n"
    "What to bring on Saturday:\n"
    "- a loaf of bread and some cheese\n"
    "- rope, at least twenty metres of it\n"
    "- two lamps, with spare batteries\n"
    "- the map of the lower valley\n"
    "- warm clothes, since the nights are cold by now\n\n"
    "The level of the river is read every six hours and written to a file. This function gives "
    "the mean of the last readings:\n\n"
    "def mean_level(readings, count):\n"
    "    if count <= 0:\n"
    "        raise ValueError(\"count must be positive\")\n"
    "    recent = readings[-count:]\n"
    "    return sum(recent) / len(recent)\n\n"
    "for day in range(7):\n"
    "    print(day, round(mean_level(levels[day], 4), 2))\n\n"
    "In 2023 the mill ground 412 tonnes of wheat, 87 of rye and 23 of spelt; in 2024 it was 398, "
    "95 and 31. That makes 522 tonnes in the first year and 524 in the second, an increase of "
    "0.4 percent. A wheel of 3 metres has a circumference of 3 times 3.14159, or about 9.42 "
    "metres. At 8 turns a minute its rim moves 75.4 metres in that time, which is 1.26 metres a "
    "second.\n\n"
    "Why does a wheel that is fed from above use the water better than one that is pushed from "
    "below? The first is turned by the weight of the water and the second by its speed. Weight "
    "acts during the whole fall, while most of the speed is lost in foam and eddies as soon as "
    "the stream hits the wood. For this reason a good wheel of the first kind gives back more "
    "than four fifths of the energy, and one of the second kind hardly a third. The answer may "
    "be different where there is plenty of water but very little height, as is often the case in "
    "flat country.\n";

}  // namespace

std::string_view DecoderText() { return kText; }

}  // namespace penstock::checks
