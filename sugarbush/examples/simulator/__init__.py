"""A generator of customer-service texts that needs no model.

writer.py           Simulator: one text per request, in one of three ways
  generic_texts.py  without examples: dialogues and tickets in a fixed order of turns
  imitation.py      from examples: the structure of one example, sentences of the others
  variation.py      from a parent text: some sentences in other words

context.py          what one text is about, and the words for its slots
targets.py          attribute values: sentences that express them, patterns that find them
insertion.py        puts the target values into a text
rewording.py        synonyms; new names and numbers
utterances.py       a text as a list of sentences with their speakers
knowledge.py        what is known of shops in general, from data/*.yaml
"""
