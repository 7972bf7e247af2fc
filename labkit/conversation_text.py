"""Words for the toy conversation: names, towns, jobs and sentence templates.

The simulation itself works on vectors; these templates only let a person read it. A statement sentence
contains the value, a noise sentence speaks of the topic and gives no answer. Which words a conversation
uses is drawn from a generator of its own, so the text never touches the luck of the simulation.
"""

from dataclasses import dataclass
from typing import NamedTuple

TOWNS = tuple("""Lisbon Porto Ghent Graz Turin Lyon Bergen Tampere Aarhus Utrecht Leeds Cork Bristol Dundee Gdansk Brno
Zagreb Split Patras Valencia Bilbao Seville Basel Geneva Malmo Uppsala Riga Tallinn Vilnius Ljubljana Boston Austin Denver
Portland Tucson Omaha Halifax Quebec Lima Cusco Quito Bogota Cordoba Santiago Kyoto Osaka Sapporo Busan Taipei Hanoi Penang
Chennai Pune Jaipur Accra Nairobi Tunis Perth Hobart Wellington""".split())
JOBS = tuple("""nurse baker welder pilot architect carpenter dentist florist translator plumber librarian chemist geologist
accountant electrician midwife journalist surveyor gardener tailor potter vet teacher lawyer barista illustrator mechanic
paramedic editor optician actuary luthier brewer historian roofer statistician cellist waiter radiographer beekeeper""".split())
FIRST_NAMES = tuple("""Alex Amara Anton Bela Bruno Carla Chloe Dario Dina Elif Emil Esra Farid Freya Goran Greta Hana Hugo Ida
Igor Ines Jonas Juna Kai Karim Lea Leon Lin Luca Mara Milan Mina Nadia Nils Noor Olga Omar Petra Priya Quinn Rafa Rosa Sami
Sofia Tariq Tessa Vera Yusuf Zoe""".split())
SURNAMES = tuple("""Adler Bauer Costa Dogan Eriksen Fischer Garcia Haddad Ivanov Jensen Kaya Lindqvist Moreno Novak Okafor
Petrov Quispe Rossi Silva Tanaka Ueda Varga Weber Yilmaz""".split())
SPEAKERS = ("Maya", "Tom", "Ruth", "Ben", "Clara", "Isaac", "Nora", "Felix", "Edith", "Sam", "Lucia", "Otto")
MONTHS = tuple("January February March April May June July August September October November December".split())
ALLERGIES = ("peanuts", "shellfish", "birch pollen", "cats", "penicillin", "sesame", "wasp stings", "soy", "latex", "kiwi", "dust mites", "lactose")
LANGUAGES = tuple("""Catalan Welsh Finnish Turkish Tamil Korean Basque Swahili Polish Greek Farsi Dutch Czech Hausa Thai Maltese
Danish Hindi Latvian Quechua Hebrew Irish Malay Zulu Bengali Croatian Georgian Galician Nepali Amharic Tagalog Breton""".split())
PETS = ("Biscuit", "Pepper", "Mango", "Captain", "Waffles", "Juno", "Ziggy", "Pickle", "Shadow", "Olive", "Rocket", "Domino")
INSTRUMENTS = tuple("oboe cello trumpet harp accordion clarinet banjo bassoon viola flute tuba mandolin".split())
HOBBIES = tuple("""pottery rowing fencing chess archery knitting climbing origami birdwatching surfing calligraphy woodcarving
kayaking juggling embroidery astronomy skating bouldering beekeeping cycling stargazing judo sketching gliding sailing weaving
badminton orienteering photography gardening ballroom-dancing ceramics foraging bookbinding""".split())
CARS = tuple("""Fiat Skoda Volvo Saab Mini Subaru Honda Mazda Peugeot Lancia Dacia Opel Seat Suzuki Citroen Jeep Lexus Kia
Toyota Renault Audi Rover Tesla Smart Ford Hyundai Nissan Chevrolet Buick Morgan Alpine Lotus""".split())
DISHES = tuple("""ramen risotto paella goulash moussaka laksa pierogi ceviche tagine gnocchi bibimbap falafel lasagne pho curry
borscht empanadas couscous shakshuka fondue gumbo tempura dumplings polenta biryani ratatouille satay kimchi burritos ravioli
okonomiyaki schnitzel""".split())
_COLOURS = ("Blue", "Amber", "Silver", "Crimson", "Ivory", "Green")
RESTAURANTS = tuple(f"the {colour} {noun}" for noun in ("Heron", "Lantern", "Anchor", "Walnut", "Kettle", "Fox") for colour in _COLOURS)
BOOKS = tuple(f"The {colour} {noun}" for noun in ("Harbour", "Orchard", "Letter", "Winter", "Garden", "Road") for colour in _COLOURS)


@dataclass(frozen=True)
class Key:
    """One thing worth remembering: its name, its possible values and the sentences about it."""

    name: str
    values: tuple
    says: tuple  # the user states it
    confirms: str  # the other speaker states it
    fact: str  # as a memory, in the third person
    topic: str  # "we should talk about ..."
    asks: str
    asks_before: str = ""  # of what never changes


CONSTANT_KEYS = (
    Key("birth month", MONTHS, ("I was born in {v}, by the way.", "My birthday is in {v}."), "Your birthday is in {v}, I wrote it down.",
        "{user} was born in {v}", "birthdays", "In which month was {user} born?"),
    Key("allergy", ALLERGIES, ("I have to be careful, I am allergic to {v}.", "No {v} for me, I get a bad reaction."),
        "Careful, you are allergic to {v}.", "{user} is allergic to {v}", "allergies", "What is {user} allergic to?"),
    Key("native language", LANGUAGES, ("We only spoke {v} at home when I was small.", "My first language is {v}."),
        "I keep forgetting that you grew up speaking {v}.", "{user}'s native language is {v}", "learning to speak", "What is {user}'s native language?"),
    Key("university", TOWNS, ("I studied in {v} back then.", "My university years were in {v}."), "You went to university in {v}, did you not?",
        "{user} studied in {v}", "student days", "Where did {user} go to university?"),
    Key("first pet", PETS, ("Our first dog was called {v}.", "When I was six we got a puppy, {v}."), "And that puppy you had was called {v}!",
        "{user}'s first pet was {v}", "childhood pets", "What was {user}'s first pet called?"),
    Key("middle name", FIRST_NAMES, ("My middle name is {v}, nobody uses it.", "On paper I am also {v}, my middle name."), "I saw your middle name is {v}.",
        "{user}'s middle name is {v}", "odd middle names", "What is {user}'s middle name?"),
    Key("instrument", INSTRUMENTS, ("I played the {v} as a child.", "Seven years of lessons on the {v}, and I was still bad."),
        "You once told me you learned the {v}.", "{user} learned the {v} as a child", "music lessons", "Which instrument did {user} learn as a child?"),
    Key("birth town", TOWNS, ("I was born in {v}, a long time ago.", "{v} is where I was born."), "You were born in {v}, right?",
        "{user} was born in the town of {v}", "the places people come from", "In which town was {user} born?"),
)
CHANGING_KEYS = (
    Key("city", TOWNS, ("I live in {v} now.", "Home is {v} these days."), "So you live in {v} now.",
        "{user} lives in {v}", "moving house", "Where does {user} live now?", "Where did {user} live before that?"),
    Key("job", JOBS, ("I work as {a} {v} now.", "These days I earn my living as {a} {v}."), "So you are {a} {v} now.",
        "{user} works as {a} {v}", "work", "What is {user}'s job now?", "What was {user}'s job before that?"),
    Key("hobby", HOBBIES, ("My weekends go into {v} at the moment.", "I am completely taken by {v} right now."), "You spend all your free time on {v}!",
        "{user}'s hobby is {v}", "hobbies", "What is {user}'s hobby now?", "What was {user}'s hobby before that?"),
    Key("car", CARS, ("I drive {a} {v} now.", "There is {a} {v} in front of the house, mine."), "Your {v} is parked outside, I saw it.",
        "{user} drives {a} {v}", "cars", "Which car does {user} drive now?", "Which car did {user} drive before that?"),
    Key("restaurant", RESTAURANTS, ("My favourite place to eat is {v}.", "We always end up at {v} now."), "You always want to eat at {v}.",
        "{user}'s favourite restaurant is {v}", "eating out", "What is {user}'s favourite restaurant now?", "What was {user}'s favourite restaurant before that?"),
    Key("dish", DISHES, ("If I could choose, {v} every day.", "My favourite dish is {v}."), "I know, your favourite is {v}.",
        "{user}'s favourite dish is {v}", "cooking", "What is {user}'s favourite dish now?", "What was {user}'s favourite dish before that?"),
    Key("book", BOOKS, ("I am reading {v} at the moment.", "On my bedside table is {v}."), "You are still reading {v}, are you?",
        "{user} is reading {v}", "books", "Which book is {user} reading now?", "Which book did {user} read before that?"),
    Key("evening class", LANGUAGES, ("My evening class is {v} now.", "Tuesdays I learn {v}."), "How is the {v} class you take?",
        "{user} takes an evening class in {v}", "evening classes", "Which evening class does {user} take now?", "Which evening class did {user} take before that?"),
)


def _role(name):
    return Key(name, (), (f"{{v}} is my {name} now.", f"My {name} is {{v}}."), f"So {{v}} is your {name} now.", f"{{user}}'s {name} is {{v}}",
               "bosses" if name == "boss" else f"{name}s", f"Who is {{user}}'s {name} now?", f"Who was {{user}}'s {name} before that?")


ROLE_KEYS = tuple(_role(name) for name in ("partner", "best friend", "boss", "flatmate"))
KEYS = CONSTANT_KEYS + CHANGING_KEYS + ROLE_KEYS


class Relation(NamedTuple):
    """Something that a new person brings along."""

    name: str
    values: tuple
    says: tuple  # either speaker states it
    fact: str  # as a memory
    asks: str  # as a two-hop question


RELATIONS = (
    Relation("home town", TOWNS, ("{p} comes from {v}, by the way.", "{p} grew up in {v}, can you believe it?", "Oh, and {p} is from {v}."),
             "{p} comes from {v}", "Where does {user}'s {role} come from?"),
    Relation("job", JOBS, ("{p} works as {a} {v}.", "{p} is {a} {v}, a good one they say.", "What {p} does? {p} is {a} {v}."),
             "{p} works as {a} {v}", "What is the job of {user}'s {role}?"),
)
TOPIC_NOISE = (
    "Funny, everyone at the table was talking about {topic}.", "There was a long radio programme about {topic}.", "We could talk for hours about {topic}.",
    "I had a strange dream about {topic}.", "My aunt never stops asking about {topic}.", "Someone at the bus stop went on about {topic}.",
    "I read an article about {topic} on the train.", "Remind me to tell you a story about {topic}.", "People have such strong opinions about {topic}.",
)
PERSON_NOISE = (
    "{p} called earlier and says hello.", "I ran into {p} at the market.", "{p} told the funniest story yesterday.", "We had coffee with {p}.",
    "{p} forgot an umbrella here again.", "I still owe {p} a postcard.", "{p} laughed so much about your photo.",
)
SMALL_TALK = (
    "It has been raining since {day}.", "How was your {day}?", "I slept badly, but the coffee helps.", "Ha, that is just like you!", "The {thing} is broken again.",
    "Did you see the {thing} in the window?", "Let us do something nice on {day}.", "I am so tired after {day}.", "That sounds lovely.", "No idea, ask me on {day}.",
    "I spent an hour looking for the {thing}.", "The neighbours bought a {thing}, of all things.", "Good morning! Finally some sun.", "I will be late on {day}, sorry.",
    "You will not believe what happened with the {thing}.", "Thank you, that made my {day}.", "My grandmother still has a {thing} like that.", "Are you coming over on {day}?",
    "The {thing} makes a noise like a frog.", "{day} was so quiet, I liked it.", "We are out of milk again.", "I laughed out loud, in the middle of the street.",
    "Somebody left a {thing} in the hallway.", "Never buy a {thing} on a {day}.", "I counted eleven pigeons on the roof.", "My phone is nearly empty.",
    "Shall we see a film on {day}?", "It smells of fresh bread here.", "The clouds look like a {thing} today.", "I finally cleaned behind the {thing}.",
    "What a week, and it is only {day}.", "Sorry, the line is bad, say that again?", "I found a coin under the {thing}.", "You were right, as always.",
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
THINGS = ("kettle", "lamp", "bicycle", "lift", "printer", "suitcase", "piano", "heater", "ladder", "clock", "tent", "mirror")


def article(word):
    """The indefinite article in front of `word`: "a" or "an"."""
    return "an" if word[0].lower() in "aeiou" else "a"


def person_name(number, order):
    """Name of person `number`; `order` is a permutation of FIRST_NAMES. Names never repeat."""
    again, first = divmod(number, len(FIRST_NAMES))
    return f"{FIRST_NAMES[order[first]]} {SURNAMES[(order[first] + 7 * again) % len(SURNAMES)]}"


class Wording:
    """The words of one conversation: who speaks, and which word each value has.

    Parameters
    ----------
    rng : numpy.random.Generator
        Used for words only.
    """

    def __init__(self, rng):
        self.rng = rng
        self.user, self.other = (str(name) for name in rng.choice(SPEAKERS, 2, replace=False))
        self._names = rng.permutation(len(FIRST_NAMES))
        self._orders = [rng.permutation(len(key.values)) for key in KEYS]
        self._relation_orders = [rng.permutation(len(relation.values)) for relation in RELATIONS]

    def person(self, number):
        """Name of person `number`."""
        return person_name(number, self._names)

    def value(self, key, index):
        """Word for value `index` of attribute `key`; words never repeat within a key."""
        words, order = KEYS[key].values, self._orders[key]
        again, position = divmod(index, len(words))
        return words[order[position]] + (f" ({again + 1})" if again else "")

    def relation_value(self, person, relation):
        """Home town (relation 0) or job (relation 1) of a person; may be shared by two people."""
        words, order = RELATIONS[relation].values, self._relation_orders[relation]
        return words[order[person % len(words)]]

    def pick(self, templates):
        """One of the templates, at random."""
        return templates[self.rng.integers(len(templates))]

    def statement(self, key, value, by_user):
        """A sentence that states the value of a key."""
        template = self.pick(KEYS[key].says) if by_user else KEYS[key].confirms
        return template.format(v=value, a=article(value))

    def small_talk(self):
        """A sentence about nothing in particular."""
        return self.pick(SMALL_TALK).format(day=self.pick(DAYS), thing=self.pick(THINGS))
