"""What the simulator knows of shops in general: values, what shows them, how they are said.

Public knowledge, written down once. A value that is not here is woven in as it stands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache


class Kind(StrEnum):
    """What an attribute is about."""

    PRODUCT = "product"
    ISSUE = "issue"
    RESOLUTION = "resolution"
    MOOD = "mood"
    CHANNEL = "channel"
    PRIORITY = "priority"
    REGION = "region"
    TENURE = "tenure"
    RATING = "rating"
    DATE = "date"
    COMPANY = "company"
    OTHER = "other"


@dataclass(frozen=True, kw_only=True)
class Concept:
    """A value: the words that `cues` it in a text, and templates by who says it.

    `note` is for tickets written about a customer. An empty tuple means that it goes unsaid.
    """

    cues: tuple[str, ...]
    customer: tuple[str, ...] = ()
    agent: tuple[str, ...] = ()
    note: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Product:
    """Names of a thing (the first is the plain one), what it does wrong, what it is made of."""

    nouns: tuple[str, ...]
    faults: tuple[str, ...]
    parts: tuple[str, ...]


def _product(nouns: str, faults: str, parts: str) -> Product:
    split = (tuple(p.strip() for p in text.split(";")) for text in (nouns, faults, parts))
    names, wrongs, pieces = split
    return Product(nouns=names, faults=wrongs, parts=pieces)


PRODUCTS: dict[str, Product] = {
    "phone": _product(
        "phone; smartphone; mobile phone; handset",
        "will not charge; freezes on the lock screen; loses signal indoors; overheats in my pocket",
        "screen; charging port; back cover; camera lens",
    ),
    "laptop": _product(
        "laptop; notebook computer; laptop computer",
        "shuts down without warning; has a dead keyboard row; takes ages to boot; shows "
        "lines on the display",
        "hinge; keyboard; charger; touchpad",
    ),
    "tablet": _product(
        "tablet; tablet computer; drawing tablet",
        "does not react to touch; drains within an hour; refuses to update; keeps restarting",
        "screen; stylus; volume button; case",
    ),
    "headphones": _product(
        "pair of headphones; headset; pair of earbuds",
        "only plays on the left side; drops the Bluetooth connection; crackles; will not pair",
        "ear cushion; headband; cable; charging case",
    ),
    "television": _product(
        "television; TV; smart TV",
        "has no picture; turns itself off; shows green stripes; cannot find any channels",
        "stand; remote control; panel; power board",
    ),
    "camera": _product(
        "camera; digital camera; compact camera",
        "takes blurry pictures; cannot read the memory card; will not focus; has a stuck shutter",
        "lens; flash; battery door; viewfinder",
    ),
    "printer": _product(
        "printer; inkjet printer; laser printer",
        "jams on every page; prints blank sheets; does not see the network; smears the ink",
        "paper tray; cartridge; scanner lid; roller",
    ),
    "smartwatch": _product(
        "smartwatch; fitness watch; sports watch",
        "counts steps while I sleep; does not sync; has a black screen; loses an hour a day",
        "strap; crown; glass; charger puck",
    ),
    "speaker": _product(
        "speaker; wireless speaker; smart speaker",
        "distorts at low volume; does not hear commands; disconnects; hums all the time",
        "grille; power cord; volume dial; base",
    ),
    "game console": _product(
        "game console; gaming console; video game system",
        "ejects every disc; overheats; cannot go online; corrupts saved games",
        "controller; disc drive; HDMI port; fan",
    ),
    "router": _product(
        "router; wifi router; modem router",
        "keeps dropping the connection; is painfully slow; does not reach the bedroom; blinks red",
        "antenna; power adapter; network port; stand",
    ),
    "thermostat": _product(
        "thermostat; smart thermostat; heating control",
        "shows the wrong temperature; does not switch the heating on; loses its "
        "settings; goes offline",
        "display; wall plate; sensor; battery cover",
    ),
    "shoes": _product(
        "pair of shoes; pair of sneakers; pair of boots",
        "came apart at the sole; squeaks on every step; hurts at the heel; lets water in",
        "sole; lace; heel; tongue",
    ),
    "jacket": _product(
        "jacket; winter coat; rain jacket",
        "lost its colour in the wash; is not waterproof; runs far too small; sheds feathers",
        "zipper; hood; sleeve; lining",
    ),
    "dress": _product(
        "dress; summer dress; evening dress",
        "shrank after one wash; is see-through; has a crooked hem; looks nothing like the photo",
        "seam; button; strap; belt",
    ),
    "perfume": _product(
        "perfume; bottle of perfume; fragrance",
        "smells of alcohol only; has no scent after ten minutes; gave me a rash; looks diluted",
        "spray head; cap; bottle; box",
    ),
    "lipstick": _product(
        "lipstick; lip colour; matte lipstick",
        "is a completely different shade; melts at once; dries out my lips; crumbles",
        "cap; case; seal; tip",
    ),
    "sofa": _product(
        "sofa; couch; corner sofa",
        "creaks badly; sags on one side; has fabric that pills; is a different grey",
        "leg; cushion; armrest; frame",
    ),
    "bookshelf": _product(
        "bookshelf; bookcase; shelving unit",
        "wobbles; does not line up with its holes; bends in the middle; smells of varnish",
        "shelf; back panel; screw set; side board",
    ),
    "office chair": _product(
        "office chair; desk chair; swivel chair",
        "will not stay up; rolls unevenly; squeaks; leans back by itself",
        "armrest; wheel; backrest; lever",
    ),
    "floor lamp": _product(
        "floor lamp; standing lamp; reading lamp",
        "flickers; does not turn on; is too dim; gets very hot",
        "lampshade; switch; bulb socket; base",
    ),
    "mattress": _product(
        "mattress; foam mattress; spring mattress",
        "sinks in the middle; has a strong smell; is much too soft; never expanded",
        "cover; zipper; edge; topper",
    ),
    "rug": _product(
        "rug; carpet; wool rug",
        "sheds everywhere; curls at the corners; stained my floor; is the wrong size",
        "fringe; backing; corner; pattern",
    ),
    "coffee machine": _product(
        "coffee machine; coffee maker; espresso machine",
        "does not heat the water; leaks on the counter; makes weak coffee; stops halfway",
        "water tank; milk frother; jug; filter basket",
    ),
    "blender": _product(
        "blender; smoothie maker; stand mixer",
        "smokes; leaks at the bottom; does not crush ice; stops after a minute",
        "jar; blade; lid; motor base",
    ),
    "robot vacuum": _product(
        "robot vacuum; vacuum cleaner; vacuum robot",
        "gets stuck under the sofa; has no suction; does not charge; cannot map the house",
        "brush roll; dust container; wheel; charging base",
    ),
    "air purifier": _product(
        "air purifier; air cleaner; room air purifier",
        "is very loud; always shows bad air; smells odd; does not turn on",
        "filter; fan; cover; power cable",
    ),
    "bicycle": _product(
        "bicycle; bike; city bike",
        "does not shift properly; has weak brakes; came with a flat tyre; rattles",
        "pedal; brake cable; front wheel; saddle",
    ),
    "tent": _product(
        "tent; camping tent; two-person tent",
        "leaks in light rain; has a torn floor; is missing its pegs; does not stand upright",
        "pole; rain cover; zipper; guy line",
    ),
    "suitcase": _product(
        "suitcase; travel case; cabin suitcase",
        "does not lock; tips over; has a wheel that sticks; split on the first trip",
        "handle; wheel; lock; zipper",
    ),
    "stroller": _product(
        "stroller; pram; baby stroller",
        "does not fold; pulls to the right; has a loose brake; squeaks when pushed",
        "canopy; wheel; harness; cup holder",
    ),
    "board game": _product(
        "board game; puzzle; family board game",
        "has cards in another language; lacks half its pieces; came with two identical "
        "boards; smells of paint",
        "box; dice; rule book; board",
    ),
}  # fmt: skip

ISSUES: dict[str, Concept] = {
    "late delivery": Concept(
        cues=("late", "delayed", "overdue", "still waiting", "not arrived", "delay"),
        customer=(
            "My {product} was supposed to [arrive|be here] {days} days ago and it is "
            "still [late|delayed].",
            "I ordered a {product} [two|three|four] weeks ago and it has not arrived yet.",
            "[I am still waiting for|I keep waiting and waiting, still waiting for] the "
            "{product} I ordered, it is {days} days overdue.",
            "The {product} is late again, the delivery date [has passed|came and went] "
            "{days} days ago.",
        ),
        agent=(
            "I can see the shipment is delayed at the {hub} hub.",
            "It looks like the delay happened with our carrier, {carrier}.",
        ),
        note=(
            "Delivery of {product} is {days} days late.",
            "{product} delayed, customer still waiting.",
        ),
    ),
    "lost parcel": Concept(
        cues=("lost", "went missing", "never received", "disappeared", "missing in transit"),
        customer=(
            "The tracking says my {product} was delivered but I never received it.",
            "I think {carrier} lost the parcel with my {product}.",
            "My package with the {product} disappeared somewhere on the way.",
        ),
        agent=(
            "The last scan was in {hub}, so the parcel may be lost.",
            "I am afraid the package went missing after it left {hub}.",
        ),
        note=("Parcel with {product} lost by {carrier}.", "{product} went missing after {hub}."),
    ),
    "damaged item": Concept(
        cues=("damaged", "cracked", "broken", "scratched", "dented", "smashed", "bent", "snapped"),
        customer=(
            "My {product} arrived with a [cracked|broken|scratched] {part}.",
            "I opened the box and the {part} of the {product} was [broken|damaged].",
            "The {product} is damaged, the {part} has a [big scratch|large dent] and the "
            "box was torn.",
            "When I unpacked the {product} the {part} was already [broken off|smashed].",
        ),
        agent=(
            "It must have been damaged in transit, I apologise.",
            "Could you send us a picture of the damaged {part}?",
        ),
        note=("{product} arrived damaged ({part}).", "{part} of the {product} broken on arrival."),
    ),
    "wrong item": Concept(
        cues=("wrong item", "wrong", "instead of", "different item", "not what i ordered"),
        customer=(
            "I received the wrong item, [a {other}|some {other}] instead of the {product}.",
            "I ordered a {product} but you sent me a {other}, that is not what I ordered.",
            "There was a {other} in the box, the wrong item, I need my {product}.",
        ),
        agent=(
            "It seems the warehouse packed the wrong item.",
            "You should have received the {product}, not a different item, sorry about that.",
        ),
        note=("Wrong item sent: {other} instead of {product}.",),
    ),
    "missing part": Concept(
        cues=("missing part", "is missing", "was missing", "not included", "incomplete"),
        customer=(
            "The {part} is missing from my {product}.",
            "My {product} came incomplete, the {part} was not included.",
            "I cannot assemble the {product} because the {part} was missing.",
        ),
        agent=(
            "The {part} should have been in the box, so the set is incomplete.",
            "Let me check why the {part} was not included.",
        ),
        note=("{part} missing from {product}.", "{product} incomplete, {part} not included."),
    ),
    "refund not received": Concept(
        cues=("refund not", "no refund", "not been refunded", "waiting for my refund",
              "waiting for the refund", "where is my refund", "money back yet", "refund is still"),
        customer=(
            "I returned the {product} {days} days ago and I have not been refunded.",
            "Where is my refund of {sum} for the {product} I sent back?",
            "I am waiting for my refund, the {product} went back weeks ago.",
            "You promised me {sum} for the returned {product} and there is no refund on "
            "my account.",
        ),
        agent=(
            "I see the return of the {product}, the refund is still open on our side.",
            "The refund was not triggered after your return, I am sorry.",
        ),
        note=("Refund not received for returned {product} ({sum}).",
              "Customer has not been refunded {sum} for {product}."),
    ),
    "double charge": Concept(
        cues=("twice", "two times", "double", "charged again", "duplicate", "overcharged"),
        customer=(
            "I was charged twice for one {product}, {sum} each time.",
            "There are two payments of {sum} on my card for the same {product}, a duplicate.",
            "You billed me double for my {product}.",
        ),
        agent=(
            "I do see a duplicate payment of {sum}.",
            "It looks like the card was charged twice by mistake.",
        ),
        note=(
            "Customer charged twice for {product}, {sum}.",
            "Duplicate payment of {sum} for {product}.",
        ),
    ),
    "promotion code": Concept(
        cues=("promo code", "discount code", "coupon", "promotion code", "discount"),
        customer=(
            "The discount code for the {product} does not work at checkout.",
            "I have a coupon for {percent} percent off the {product} and it was not applied.",
            "My promo code was rejected when I ordered the {product}.",
        ),
        agent=(
            "That promo code expired last week.",
            "I can see the coupon on your account.",
        ),
        note=("Promo code not applied to {product}.", "Coupon rejected for {product}."),
    ),
    "cancellation": Concept(
        cues=("cancel", "cancelled", "cancellation", "canceled", "called off"),
        customer=(
            "I would like to cancel my order for the {product}.",
            "Can you cancel the {product}? I ordered it by mistake.",
            "Please cancel my {product}, I found it cheaper somewhere else.",
        ),
        agent=(
            "I can cancel that for you as it has not shipped.",
            "Let me check whether a cancellation is still possible.",
        ),
        note=("Customer wants to cancel the {product}.", "Cancellation of {product} requested."),
    ),
    "address change": Concept(
        cues=(
            "address change", "change the address", "new address", "wrong address",
            "moved house",
        ),
        customer=(
            "I need to change the address for my {product}.",
            "I moved house and the {product} is going to the wrong address.",
            "Can you send the {product} to my new address?",
        ),
        agent=(
            "I can change the address as long as it is not on the truck.",
            "What is the new address?",
        ),
        note=("Address change wanted for {product}.", "{product} to go to a new address."),
    ),
    "return": Concept(
        cues=("return it", "return the", "send it back", "return label", "returning"),
        customer=(
            "I want to return the {product}, it [is not what I expected|does not fit my home].",
            "How do I send it back? The {product} is not for me, I need a return label.",
            "I would like to return the {product} I bought {days} days ago.",
        ),
        agent=(
            "You have thirty days to return it.",
            "I can email you a return label for the {product}.",
        ),
        note=("Customer wants to return the {product}.", "Return label requested for {product}."),
    ),
    "setup trouble": Concept(
        cues=(
            "set up", "setup", "install", "pairing", "configure", "manual", "instructions",
            "leaflet",
        ),
        customer=(
            "I cannot set up my new {product}, it {fault}.",
            "I followed the manual to install the {product} and it {fault}.",
            "I need help with the setup of the {product}, the instructions make no sense.",
        ),
        agent=(
            "Let us go through the setup of the {product} together.",
            "Did you install the latest version before pairing?",
        ),
        note=("Customer cannot set up {product}: it {fault}.", "Setup help needed for {product}."),
    ),
    "warranty claim": Concept(
        cues=("warranty", "guarantee"),
        customer=(
            "My {product} {fault} and it should still be under warranty.",
            "I want to make a warranty claim for a {product} that {fault}.",
            "After {months} months the {product} {fault}. Does the warranty cover that?",
        ),
        agent=(
            "Your {product} is covered by the two-year warranty.",
            "I need the purchase date to check the warranty.",
        ),
        note=("Warranty claim: {product} {fault}.", "{product} under warranty, {part} defective."),
    ),
    "account access": Concept(
        cues=("log in", "login", "password", "locked out", "sign in"),
        customer=(
            "I cannot log in to see my {product} order.",
            "I am locked out of my account and my {product} is on its way.",
            "The password reset never works, I just want to check on my {product}.",
        ),
        agent=(
            "I have sent you a new password link.",
            "Your login was locked after several attempts.",
        ),
        note=("Customer cannot log in to account.", "Account locked, password reset needed."),
    ),
}  # fmt: skip

RESOLUTIONS: dict[str, Concept] = {
    "refund": Concept(
        cues=("refund you", "full refund", "refunded to", "money back", "money-back",
              "refund issued", "refund has been"),
        agent=(
            "I have issued a full refund of {sum} to your original payment method.",
            "You will get your money back within {days} business days.",
            "A full refund has been processed, please allow {days} days.",
        ),
        note=("Full refund issued, {sum}.", "Money back within {days} days."),
    ),
    "replacement": Concept(
        cues=("replacement", "replace it", "new one", "exchange", "swap", "swap-out"),
        agent=(
            "I will send you a replacement {product} [free of charge|today|by express].",
            "We can replace it, a new one will ship {when}.",
            "I have arranged an exchange, {carrier} will bring the new one and pick up the old.",
        ),
        note=("Replacement {product} sent.", "Exchange arranged with {carrier}."),
    ),
    "store credit": Concept(
        cues=("store credit", "voucher", "gift card", "goodwill", "credit to your account"),
        agent=(
            "I have added {credit} in store credit to your account.",
            "As an apology I am sending you a voucher for {credit}.",
            "I can offer you a gift card worth {credit} for the trouble.",
        ),
        note=("Voucher of {credit} sent.", "Store credit of {credit} added."),
    ),
    "escalation": Concept(
        cues=("escalate", "escalated", "supervisor", "specialist team", "senior colleague",
              "second line", "second level"),
        agent=(
            "I will escalate this to my supervisor right now.",
            "This needs our specialist team, I have escalated the case.",
            "Let me pass you on to a senior colleague.",
        ),
        note=("Escalated to supervisor.", "Passed on to the specialist team."),
    ),
    "callback": Concept(
        cues=("call you back", "callback", "call back", "ring-back", "ring back", "phone you",
              "calls you", "ring you"),
        agent=(
            "Someone from our team will call you back {when}.",
            "I have scheduled a callback for {day}.",
            "May I call you back {when}, once I know more?",
        ),
        note=("Callback scheduled for {day}.", "We call back {when}."),
    ),
    "advice given": Concept(
        cues=("try to", "try this", "steps", "restart", "walk you through", "talk you through",
              "talked through", "talked you through", "follow these", "explained"),
        agent=(
            "Please try to restart it and hold the button for {few} seconds.",
            "Let me walk you through the steps: unplug it, wait, and plug it in again.",
            "Follow these {few} steps from the help page and it should work.",
        ),
        note=("Explained the steps to the customer.", "Walked customer through a restart."),
    ),
    "repair": Concept(
        cues=("repair", "technician", "workshop", "fix it for you"),
        agent=(
            "We will repair it in our workshop free of charge.",
            "A technician can come by {when} to repair the {part}.",
        ),
        note=("Repair booked for {day}.", "Technician to visit {when}."),
    ),
    "no action": Concept(
        cues=("nothing we can do", "cannot help", "unable to help", "policy does not allow"),
        agent=(
            "I am sorry, there is nothing we can do in this case.",
            "Our policy does not allow that after {days} days.",
        ),
        note=("Declined, policy does not allow it.", "Told customer there is nothing we can do."),
    ),
}  # fmt: skip

MOODS: dict[str, Concept] = {
    "angry": Concept(
        cues=("angry", "unacceptable", "ridiculous", "furious", "fed up", "livid", "fuming",
              "disgrace", "disgraceful", "worst service", "outrageous", "sick of"),
        customer=(
            "This is [absolutely|simply|completely] unacceptable!",
            "I am [really angry|furious], [what kind of service is this|how can you "
            "treat people so]?",
            "[Honestly, this is ridiculous|It is ridiculous how you treat customers].",
            "I am sick of [these excuses|calling about this], worst service ever.",
        ),
        note=("Customer is very angry.", "Customer finds this unacceptable."),
    ),
    "worried": Concept(
        cues=("worried", "anxious", "nervous", "afraid", "concerned", "fear", "frets", "fretting",
              "worry"),
        customer=(
            "I am [really|quite|a little] worried about this.",
            "I am afraid [I will lose my money|it will not get sorted|something went wrong].",
            "This makes me nervous, [it is a birthday present|I have never had this before].",
        ),
        note=("Customer is worried.", "Customer sounds anxious."),
    ),
    "grateful": Concept(
        cues=("grateful", "so kind", "appreciate", "bless", "wonderful", "treasure",
              "thank you so much", "full of thanks", "ever so kind"),
        customer=(
            "Thank you so much for [your help|taking the time].",
            "I really appreciate [it|your patience|how you handle this].",
            "I am so grateful, you have been wonderful.",
        ),
        note=("Customer is grateful for the help.", "Customer much appreciates the support."),
    ),
    "disappointed": Concept(
        cues=("disappointed", "let down", "expected better", "sad"),
        customer=(
            "I am [very|deeply|rather] disappointed, I expected better.",
            "I feel let down by [your company|this shop].",
        ),
        note=("Customer is disappointed.",),
    ),
    "confused": Concept(
        cues=("confused", "do not understand", "makes no sense", "not sure what"),
        customer=(
            "I am confused about [the whole process|what to do next].",
            "I do not understand [what happened|what I am supposed to do].",
        ),
        note=("Customer is confused about the process.",),
    ),
    "neutral": Concept(
        cues=(),
        customer=("[Just so you know.|That is all.|Those are the facts.]",),
        note=("Customer was matter of fact.",),
    ),
}  # fmt: skip

CHANNELS: dict[str, Concept] = {
    "phone": Concept(
        cues=("calling", "on the line", "this call", "phoned", "on the phone", "speaking"),
        agent=("[Thanks for calling|You are on the line with] {brand}, {hand} speaking.",),
        note=("Customer phoned in.",),
    ),
    "chat": Concept(
        cues=("chat", "typing"),
        agent=("[Welcome to the {brand} chat|Hi, you are in the {brand} live chat], I am {hand}.",),
        note=("Contact by live chat.",),
    ),
    "email": Concept(
        cues=("email", "e-mail", "mail", "dear"),
        agent=("Thank you for your email, {hand} here.",),
        note=("Received by email.",),
    ),
    "web form": Concept(
        cues=("web form", "contact form", "form"),
        agent=("Thank you for filling in our web form, this is {hand}.",),
        note=("Submitted through the web form.",),
    ),
    "social media": Concept(
        cues=("social media", "direct message", "post"),
        agent=("Thanks for your direct message, {hand} here from the social media team.",),
        note=("Came in by direct message on social media.",),
    ),
    "store": Concept(
        cues=("in the store", "at the counter", "store visit"),
        agent=("Welcome to the store, I am {hand}.",),
        note=("Customer came to the counter in the store.",),
    ),
}

PRIORITIES: dict[str, Concept] = {
    "low": Concept(
        cues=("no hurry", "whenever", "low priority", "not urgent"),
        customer=("There is no hurry, [take your time|whenever it suits you].",),
        agent=("I have put this in as low priority.",),
        note=("Low priority.", "No hurry with this one."),
    ),
    "normal": Concept(
        cues=("normal priority", "usual time", "standard queue", "regular queue"),
        customer=("[The usual time|An answer within the usual time] is fine with me.",),
        agent=("I have put this in the standard queue.",),
        note=("Normal priority.", "Standard queue."),
    ),
    "high": Concept(
        cues=("high priority", "as soon as possible", "top of the list", "quickly"),
        customer=("Please look into this as soon as possible.",),
        agent=("I am marking this as high priority.",),
        note=("High priority.", "To be handled as soon as possible."),
    ),
    "urgent": Concept(
        cues=("urgent", "urgently", "emergency", "right away", "immediately"),
        customer=("This is urgent, I need it [today|solved immediately].",),
        agent=("I am flagging this as urgent.",),
        note=("URGENT.", "Urgent, act immediately."),
    ),
}

REGIONS: dict[str, Concept] = {
    side: Concept(
        cues=(side, *(f"{side}{end}" for end in ("ern", "erner"))),
        customer=(f"I live in the {side}[, does that matter|, if you need to know|].",),
        agent=(f"I see you are in the {side} region.",),
        note=(f"Customer lives in the {side}.",),
    )
    for side in ("north", "south", "east", "west")
} | {
    "islands": Concept(
        cues=("island", "islands", "ferry"),
        customer=("I live on the islands[, the ferry takes a while|].",),
        agent=("I see the address is on the islands.",),
        note=("Delivery to the islands.",),
    ),
    "abroad": Concept(
        cues=("abroad", "overseas", "international", "customs"),
        customer=("I live abroad, [customs may matter|outside the country].",),
        agent=("I see this is an international address.",),
        note=("Customer lives abroad.",),
    ),
}

KNOWN: dict[Kind, dict[str, Concept]] = {
    Kind.ISSUE: ISSUES,
    Kind.RESOLUTION: RESOLUTIONS,
    Kind.MOOD: MOODS,
    Kind.CHANNEL: CHANNELS,
    Kind.PRIORITY: PRIORITIES,
    Kind.REGION: REGIONS,
}

# Words in an attribute's name that tell what it is about.
HINTS: dict[Kind, tuple[str, ...]] = {
    Kind.PRODUCT: ("product", "item", "category", "goods", "article", "service"),
    Kind.ISSUE: ("issue", "problem", "reason", "topic", "intent", "complaint", "condition"),
    Kind.RESOLUTION: ("resolution", "outcome", "response", "action", "decision"),
    Kind.MOOD: ("sentiment", "mood", "tone", "emotion", "feeling"),
    Kind.CHANNEL: ("channel", "source", "medium", "via"),
    Kind.PRIORITY: ("priority", "urgency", "severity", "impact"),
    Kind.REGION: ("region", "state", "city", "country", "location", "area", "place"),
    Kind.TENURE: ("tenure", "loyalty", "membership"),
    Kind.RATING: ("stars", "rating", "score"),
    Kind.DATE: ("year", "month", "date", "weekday", "day", "hour"),
    Kind.COMPANY: ("company", "brand", "vendor", "airline", "provider", "merchant"),
}

SYNONYMS_OF_VALUES = {
    "negative": "angry", "positive": "grateful", "calm": "neutral", "happy": "grateful",
    "thankful": "grateful", "upset": "angry", "frustrated": "angry", "anxious": "worried",
    "tv": "television", "bike": "bicycle", "couch": "sofa", "lamp": "floor lamp",
    "chair": "office chair", "mobile phone": "phone", "smartphone": "phone",
    "vacuum": "robot vacuum",
    "vacuum cleaner": "robot vacuum", "delivery": "late delivery", "delay": "late delivery",
    "late": "late delivery", "damage": "damaged item", "damaged": "damaged item",
    "defect": "warranty claim", "warranty": "warranty claim", "lost": "lost parcel",
    "billing": "double charge", "login": "account access", "cancel": "cancellation",
    "order cancellation": "cancellation", "returns": "return", "setup": "setup trouble",
    "refunded": "refund", "replaced": "replacement", "voucher": "store credit",
    "escalated": "escalation", "call back": "callback", "advice": "advice given",
    "call": "phone", "telephone": "phone", "e mail": "email", "mail": "email",
    "live chat": "chat", "medium": "normal", "critical": "urgent",
}  # fmt: skip


@cache
def finder(kind: Kind) -> tuple[re.Pattern[str], dict[str, str]]:
    """A pattern that finds any known value of `kind`, and the value that each finding shows."""
    if kind is Kind.PRODUCT:
        shown = {noun.lower(): value for value, p in PRODUCTS.items() for noun in p.nouns}
        shown |= {noun.removeprefix("pair of "): value for noun, value in shown.items()}
    else:
        shown = {cue: value for value, c in KNOWN.get(kind, {}).items() for cue in c.cues}
    longest_first = sorted(shown, key=len, reverse=True)
    words = "|".join(map(re.escape, longest_first)) or r"(?!)"
    return re.compile(rf"\b(?:{words})\b", re.IGNORECASE), shown


@lru_cache(maxsize=65536)
def shown_values(kind: Kind, text: str) -> tuple[str, ...]:
    """The known values of `kind` that a text shows, in order of appearance."""
    pattern, shown = finder(kind)
    return tuple(shown[found.group().lower()] for found in pattern.finditer(text))


@cache
def named_things() -> re.Pattern[str]:
    """Finds `thing`: a known product after an article or the like, with the brand before it."""
    nouns, _ = finder(Kind.PRODUCT)
    return re.compile(
        r"\b(?:[Tt]he|[Aa]n?|[Mm]y|[Yy]our|[Oo]ur|[Nn]o|[Oo]ne|[Nn]ew) "
        rf"(?P<thing>(?:[A-Z][a-z]+ (?:[a-z]+ )?)?(?P<noun>(?i:{nouns.pattern})))"
    )
