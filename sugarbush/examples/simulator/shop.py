"""The wording of the embedded example: an invented shop's service desk.

The desk of Fernhill asks for the docket (its word for an order number) before it hears the
complaint, reads the waybill back, names an action in its own jargon and ends on a priority code
and a survey. Calls and chats are written turn by turn; mails and web forms as a desk log. The
simulator that writes candidates never imports this module: what it knows of the house it learned
from donated examples in the request.
"""

from __future__ import annotations

from sugarbush.examples.simulator.dice import Dice
from sugarbush.examples.simulator.entities import Person, digits, person, words
from sugarbush.examples.simulator.grammar import Grammar, Slot, Span, mark, tidy, unmark
from sugarbush.examples.simulator.shop_mix import Case

DESK_HANDS = words(
    """Agnetha Bartho Cosima Dorrit Evander Fausta Gwil Hesper Isolt Jorun Kester Ludmil Merrin
    Nevin Orla Perpetua Roisin Saskia Torvald Ulla Vesna Wystan"""
)

TOWNS = {
    "north": ("Stagmoor", "Highcairn", "Frostwick", "Braeholm"),
    "east": ("Saltmere", "Dunwold", "Reedham Staithe", "Marshgate"),
    "west": ("Combe Avery", "Tinmouth Vale", "Llanferris", "Westlow"),
    "south": ("Chalkdean", "Hopbury", "Sunhurst", "Vinery Cross"),
    "islands": ("Skerrance", "Port Gull", "Sandray"),
    "abroad": ("Vell aan Zee", "Nordhavn", "Montclar"),
}

# Name of the model, what it does wrong, what breaks off it, where it stands.
PRODUCTS = {
    "thermostat": (
        ("Ember thermostat", "Ember heating thermostat", "Ember wall thermostat"),
        ("won't hold the evening heating schedule", "reads four degrees too warm",
         "keeps losing the boiler link", "shows a blank dial each morning",
         "fires the heating at three in the night"),
        ("faceplate", "wall bracket", "sensor lead", "relay box"),
        ("hall", "landing", "boiler cupboard"),
    ),
    "router": (
        ("Skein router", "Skein wifi router", "Skein broadband router"),
        ("drops the wifi every quarter of an hour", "only shines amber and gives no internet",
         "crawls as soon as the second floor connects", "forgets its password overnight",
         "won't hand out an address to the laptop"),
        ("aerial", "power brick", "fibre socket", "reset pin"),
        ("study", "stairwell", "back office"),
    ),
    "coffee machine": (
        ("Brio coffee machine", "Brio espresso machine", "Brio bean coffee machine"),
        ("grinds but pours no coffee", "leaks under the drip tray", "begs for descaling all day",
         "froths cold milk only", "trips the fuse when it heats"),
        ("milk wand", "bean hopper", "drip tray", "brew group"),
        ("kitchen", "canteen", "pantry"),
    ),
    "robot vacuum": (
        ("Pilot robot vacuum", "Pilot vacuum robot", "Pilot robotic vacuum cleaner"),
        ("circles one chair leg until it dies", "won't find its dock", "spits dust back out",
         "stops dead at every rug", "has forgotten the map of the rooms"),
        ("side brush", "dust bin", "bumper", "charging dock"),
        ("lounge", "hallway", "playroom"),
    ),
    "air purifier": (
        ("Zephyr air purifier", "Zephyr purifier for the air", "Zephyr room air purifier"),
        ("hums like a tractor", "shows red air although the windows are open",
         "asks for a new filter every week", "smells of burnt dust", "shuts off at speed two"),
        ("filter cage", "fan grille", "particle sensor", "side panel"),
        ("nursery", "bedroom", "attic"),
    ),
    "mattress": (
        ("Drift mattress", "Drift foam mattress", "Drift double mattress"),
        ("sags in the middle", "never came up to full height", "smells of glue",
         "slopes to one side", "is far harder than the sample"),
        ("cover", "zip", "corner seam", "foam core"),
        ("bedroom", "guest room", "loft"),
    ),
    "floor lamp": (
        ("Stilt floor lamp", "Stilt standing lamp", "Stilt reading floor lamp"),
        ("flickers at half power", "leans like a drunk", "won't dim", "buzzes at night"),
        ("shade", "foot switch", "pole joint", "dimmer"),
        ("lounge", "reading corner", "hall"),
    ),
    "office chair": (
        ("Perch office chair", "Perch desk chair", "Perch swivel office chair"),
        ("sinks while I sit on it", "squeaks at every turn", "tilts to the left", "won't lock"),
        ("gas lift", "armrest", "castor", "headrest"),
        ("study", "back office", "workroom"),
    ),
    "bicycle": (
        ("Dart bicycle", "Dart commuter bicycle", "Dart folding bicycle"),
        ("slips out of third gear", "pulls to the left", "squeals on the front brake"),
        ("saddle", "rear wheel", "chain guard", "handlebar stem"),
        ("shed", "garage", "porch"),
    ),
    "tent": (
        ("Hollow tent", "Hollow family tent", "Hollow four-berth tent"),
        ("lets the rain in at the seam", "has a pole too short", "won't zip shut"),
        ("flysheet", "tent pole", "groundsheet", "inner door"),
        ("garden", "campsite", "car boot"),
    ),
}  # fmt: skip

CODES = {"low": "P4", "normal": "P3", "high": "P2", "urgent": "P1 red"}

_RULES: dict[str, tuple[str, ...]] = {
    # -- calls and chats: what the desk says first
    "open_phone": (
        "[Fernhill desk|You have the Fernhill desk], {hand} [here|speaking], docket [first|pls]?",
        "{hand} at the Fernhill desk, [what is the docket|can you read me the docket]?",
    ),
    "open_chat": (
        "[Hi hi|Hiya|Hello hello], {hand} of Fernhill desk chat, [pop your docket in|docket pls]?",
        "[Fernhill desk chat|Desk chat], you have {hand}. [Docket to start|Docket], [pls|ta]?",
    ),
    "give_docket": (
        "[It says|Docket|Here you are,] {docket}, [in the name of|under|member] {name}.",
        "{name}, docket {docket}[.|, member {tenure} months.]",
        "[Yes,|Right,] {docket}. [Name is|I am] {name}[.|, with you {tenure} months.]",
    ),
    "ask_doorstep": (
        "[Ta|Much obliged|Lovely] {first}, and [the doorstep we hold|your doorstep on file]?",
        "[Found you|There you are], which doorstep [was it for|do we have]?",
    ),
    "ask_ringback": (
        "[Ta|Much obliged|Lovely] {first}, and a ring number in case we drop?",
        "[Found you|There you are], which ring number [do we hold|is on file]?",
    ),
    "give_doorstep": ("{address}.", "[Still|It is] {address}.", "{address}, {region_words}."),
    "give_ringback": ("{phone}.", "[Try|It is|Still] {phone}.", "{phone}, [daytime|evenings]."),
    "invite": (
        "[Tallies|That tallies|You tally]. [What ails the {item}|What has the {item} done]?",
        "[Tallies|Matched]. [And the trouble|And the {item}|What may we mend]?",
    ),
    # -- moods
    "mood_angry": (
        "[This is a disgrace|I am livid|I have had it with you people|Utterly fed up].",
        "[Third time I ring about this and I am furious|Nobody there listens and I am fuming].",
    ),
    "mood_worried": (
        "[I am rather anxious|I lie awake over this|I do worry now].",
        "[I fear the worst|I am nervous it goes wrong again|It frets me].",
    ),
    "mood_neutral": ("", "", "[So,|Well,|Just this:]"),
    "mood_grateful": (
        "[First, bless you for last time|You folk are always so kind].",
        "[Thank you for picking up so fast|Grateful that you are there].",
    ),
    "end_angry": (
        "[About time|Disgraceful, still|I will believe it when I see it].",
        "[One more slip and I leave Fernhill|Do better|I want that in writing].",
    ),
    "end_worried": (
        "[You are sure, yes|And it will not happen again|Promise me it will hold]?",
        "[I hope so, I truly do|Please keep an eye on it for me].",
    ),
    "end_neutral": ("[Fine.|Right you are.|That will do.|Understood.|Okay then.]",),
    "end_grateful": (
        "[You are a treasure|Bless you, marvellous|That is ever so kind], thank you.",
        "[Wonderful service as always|So grateful, truly].",
    ),
    "note_angry": ("[Mbr furious|Mbr livid, third contact|Mbr shouting in capitals].",),
    "note_worried": ("[Mbr anxious|Mbr fretting|Mbr nervous it recurs].",),
    "note_neutral": ("", "[Mbr calm|Mbr matter of fact|Tone even]."),
    "note_grateful": ("[Mbr full of thanks|Mbr sends blessings to the desk|Mbr very grateful].",),
    # -- what is wrong, by issue: as the member tells it, and as the log has it
    "tell_setup_trouble": (
        "The {item} is up in the {room} but it {fault}, [pairing fails|the app sulks].",
        "I [followed|did all of] the leaflet for the {item} in the {room} and still it {fault}.",
        "Can not get the {item} going, it {fault} [after step {step}|ever since I set it up].",
    ),
    "note_setup_trouble": (
        "Setup of {item} in {room} stuck at step {step}: it {fault}.",
        "{item} newly fitted, {room}. Pairing fails, it {fault}.",
    ),
    "tell_warranty_claim": (
        "The {item} is [{age} months old|inside its warranty] and it {fault}, a warranty claim.",
        "After {age} months the {part} on the {item} gave up and it {fault}, warranty surely.",
        "Warranty question, the {item} in the {room} {fault}.",
    ),
    "note_warranty_claim": (
        "Warranty claim, {item}, {age} months old: it {fault}.",
        "{item} under warranty, {part} failed at {age} months, it {fault}.",
    ),
    "tell_late_delivery": (
        "The {item} was due on {day} and nothing has come up the lane, {days} days late.",
        "Still no {item}, {days} days past the slot you gave me.",
        "I stayed in all {day} for the {item} and no van came, it is {days} days overdue.",
    ),
    "note_late_delivery": (
        "{item} late by {days} days, {day} slot missed.",
        "{day} van never came, {item} {days} days overdue.",
    ),
    "tell_damaged_item": (
        "The {item} came out of the box with a [cracked|bent|smashed] {part}.",
        "Box was crushed and the {part} of the {item} is [in bits|snapped|dented].",
        "Unpacked the {item} in the {room} and the {part} is [broken|split] clean through.",
    ),
    "note_damaged_item": (
        "{item} arrived damaged, {part} [cracked|bent|snapped].",
        "Transit damage: {part} of {item} [smashed|dented], box crushed.",
    ),
    "tell_refund_not_received": (
        "I sent the {item} back {weeks} weeks ago and my {sum} never came home.",
        "No refund yet, {sum} for the {item}, {weeks} weeks since your depot signed for it.",
        "Where is my {sum}? The {item} went back on {day} and the bank shows nothing.",
    ),
    "note_refund_not_received": (
        "Refund of {sum} for {item} outstanding {weeks} weeks.",
        "{item} back at depot {weeks} weeks, {sum} not paid out.",
    ),
    "tell_double_charge": (
        "You took {sum} twice for one {item}, my statement shows both.",
        "My card was billed two times for the {item}, {sum} each on {day}.",
        "One {item}, two payments of {sum}, explain that.",
    ),
    "note_double_charge": (
        "{item} billed twice, {sum} each, {day}.",
        "Duplicate charge {sum} on card for {item}.",
    ),
    "tell_cancellation": (
        "I want to cancel the {item} [plan|order] before {day}.",
        "Please strike the {item} from my account, [we are moving|I no longer need it].",
        "Cancel the {item}, I [changed my mind|found one nearer home].",
    ),
    "note_cancellation": (
        "Wants {item} cancelled before {day}.",
        "Cancel request, {item}, [moving house|no longer needed].",
    ),
    "tell_wrong_item": (
        "I ordered the {item} and the box held [somebody else's|a quite different] {wrong}.",
        "You sent me a {wrong} instead of the {item}.",
    ),
    "note_wrong_item": (
        "Wrong goods: {wrong} in the box, {item} ordered.",
        "Picked {wrong} instead of {item}.",
    ),
    "tell_lost_parcel": (
        "The {item} is marked handed over on {day} and I never had it, the parcel is gone.",
        "Your courier lost the parcel with the {item}, nobody knows where it is.",
    ),
    "note_lost_parcel": (
        "Parcel with {item} lost, scan of {day} false.",
        "{item} missing in transit since {day}.",
    ),
    # -- what the desk sees
    "look": (
        "[I see|I have it on] waybill {waybill} [out of|from] {depot}, [scanned {day}|bay {step}].",
        "[Waybill {waybill} tallies|Waybill {waybill} it is], {depot} [confirms|has it noted].",
        "{depot} has it under waybill {waybill}.",
    ),
    "look_home": (
        "[Right,|Ah,] {depot} [knows this one|has seen {step} of these this week].",
        "[Noted against your docket|I put that on the docket], {depot} is told.",
    ),
    # -- what is done, by resolution
    "do_refund": (
        "I start a money-back run [today|tonight], {workdays} desk days [to the card|to land].",
        "[That is|We do] a money-back run, full sum, {workdays} desk days.",
    ),
    "do_replacement": (
        "I book a swap-out, [new one rides on {day}|the van brings a fresh one {day}].",
        "[That is|We do] a swap-out, keep the old one by the door for {day}.",
    ),
    "do_store_credit": (
        "I raise a goodwill chit of {chit} [onto your membership|for the shop].",
        "[Have|Take] a goodwill chit, {chit}, [good till spring|no small print].",
    ),
    "do_escalation": (
        "This goes to second line [this minute|with my name on it], they [own|hold] it now.",
        "I hand it up to second line, [{hand} follows it|floor lead informed].",
    ),
    "do_callback": (
        "I plan a ring-back on {day} [before noon|after tea] [with a fitter|from the workshop].",
        "[A fitter|Our workshop] gives you a ring-back {day}.",
    ),
    "do_advice_given": (
        "[Let me talk you through|I talk you through] it: hold the [knob|button] {step} seconds, "
        "[wait for two clicks|then count to ten].",
        "[Talked through|I have talked you through] the leaflet, [see page|page] {step}.",
    ),
    "act_refund": ("Money-back run, {workdays} desk days.", "Money-back run [begun|on {day}]."),
    "act_replacement": ("Swap-out rides {day}.", "Swap-out booked, old unit collected {day}."),
    "act_store_credit": ("Goodwill chit {chit} issued.", "Goodwill chit of {chit}, no return."),
    "act_escalation": ("To second line[, floor lead told|, {hand} follows].",),
    "act_callback": ("Ring-back {day} [with fitter|from workshop].", "Ring-back fixed for {day}."),
    "act_advice_given": ("Talked through [the leaflet|page {step}], [works now|closing].",),
    # -- how it ends
    "close": (
        "[Logged|Booked in] as {code}. [Survey code {survey}|Two pips for the survey].",
        "{code} on the docket. [Mind how you go|Fare you well], {first}.",
    ),
    "head_email": (
        "DESK LOG mail in - {depot} - mbr {tenure} mo - {code}",
        "DESK LOG {depot} / mail / {code} / member {tenure} months",
    ),
    "head_web_form": (
        "DESK LOG form in - {depot} - mbr {tenure} mo - {code}",
        "DESK LOG {depot} / web form / {code} / member {tenure} months",
    ),
    "who": (
        "{name}, docket {docket}, {contact}.",
        "Docket {docket}: {name}, {contact}.",
        "{name} of {contact}, docket {docket}, {region_words}.",
    ),
    "log_look": (
        "Waybill {waybill} [checked|tallies], [{depot} confirms|bay {step}].",
        "[Depot|Bay {step}] answers: waybill {waybill} [scanned {day}|as stated].",
    ),
    "log_close": ("[Survey sent|Survey {survey}|No survey]. {hand}.", "[Shut|Parked] by {hand}."),
    # -- small change
    "region_words": ("{depot} side", "[up|out] {depot} way"),
    "day": ("[Mon|Tues|Wednes|Thurs|Fri|Satur]day",),
    "fault": ("{one_fault}",),
}  # fmt: skip

_GRAMMAR = Grammar(_RULES)


def write_case(case: Case, dice: Dice) -> tuple[str, tuple[Span, ...]]:
    """The text of a case as the desk keeps it, and the spans that identify the member."""
    slots = _slots(case, dice)
    is_log = case.channel in {"email", "web form"}
    lines = _log(case, dice, slots) if is_log else _talk(case, dice, slots)
    return unmark("\n".join(tidy(line) for line in lines))


def _talk(case: Case, dice: Dice, slots: dict[str, Slot]) -> list[str]:
    def say(rule: str) -> str:
        return _GRAMMAR.write(rule, dice, slots)

    issue = case.issue.replace(" ", "_")
    check = dice.pick(("doorstep", "ringback"))
    turns = [
        ("Desk", say(f"open_{case.channel}")),
        ("Member", say("give_docket")),
    ]
    if dice.chance(0.22):
        turns += [("Desk", say(f"ask_{check}")), ("Member", say(f"give_{check}"))]
    sees = [say(_looking(case, dice))] if dice.chance(0.5) else []
    answer = " ".join([*sees, say(f"do_{case.resolution.replace(' ', '_')}")])
    turns.append(("Desk", say("invite")))
    turns.append(("Member", f"{say(f'mood_{case.sentiment}')} {say(f'tell_{issue}')}"))
    if dice.chance(0.65):
        turns.append(("Desk", answer))
        turns.append(("Member", say(f"end_{case.sentiment}")))
        turns.append(("Desk", say("close")))
    else:
        turns.append(("Desk", f"{answer} {say('close')}"))
    return [f"{who}> {tidy(line)}" for who, line in turns]


def _log(case: Case, dice: Dice, slots: dict[str, Slot]) -> list[str]:
    def note(rule: str) -> str:
        return tidy(_GRAMMAR.write(rule, dice, slots))

    body = [note(f"note_{case.issue.replace(' ', '_')}"), note(f"note_{case.sentiment}")]
    if dice.chance(0.65):
        body.append(note("log_look"))
    if dice.chance(0.45):
        quoted = note(f"tell_{case.issue.replace(' ', '_')}")
        body.append(f'Writes: "{quoted}"')
    return [
        note(f"head_{case.channel.replace(' ', '_')}"),
        note("who"),
        " ".join(part for part in body if part),
        f"ACTION {note('act_' + case.resolution.replace(' ', '_'))} {note('log_close')}",
    ]


def _looking(case: Case, dice: Dice) -> str:
    """A waybill matters where something travels; at home the desk only takes note."""
    travels = case.issue not in {"setup trouble", "warranty claim", "cancellation"}
    return "look" if travels or dice.chance(0.3) else "look_home"


def _slots(case: Case, dice: Dice) -> dict[str, Slot]:
    member: Person = person(dice, towns=TOWNS[case.region], phone="0555 01# ####")
    names, faults, parts, rooms = PRODUCTS[case.product]
    others = [products[0][0] for name, products in PRODUCTS.items() if name != case.product]
    docket = mark("ORDER_NUMBER", digits("FH-###-#####", dice))
    waybill = mark("TRACKING_NUMBER", digits("WB ## #### ##@", dice))
    return {
        "name": member.name,
        "first": member.first,
        "address": member.address,
        "phone": member.phone,
        "contact": dice.pick((member.address, member.phone)),
        "docket": docket,
        "waybill": waybill,
        "hand": dice.pick(DESK_HANDS),
        "item": lambda: dice.pick(names),
        "one_fault": dice.pick(faults),
        "part": dice.pick(parts),
        "room": dice.pick(rooms),
        "wrong": dice.pick(others),
        "depot": "Overseas Depot" if case.region == "abroad" else f"Depot {case.region.title()}",
        "tenure": str(case.tenure_months),
        "code": CODES[case.priority],
        "age": lambda: str(dice.between(2, 23)),
        "days": lambda: str(dice.between(2, 19)),
        "weeks": lambda: str(dice.between(2, 9)),
        "workdays": lambda: str(dice.between(2, 6)),
        "step": lambda: str(dice.between(2, 9)),
        "sum": f"{dice.between(29, 640)} crowns",
        "chit": f"{dice.between(5, 60)} crowns",
        "survey": digits("##", dice),
    }
