"""Generates customer-service texts without a model.

writer.py           Simulator: writes one text per request, with one of three modules:
  generic_texts.py  without examples: dialogues and tickets with a fixed order of turns
  imitation.py      with examples: the structure of one example, sentences of the others
  variation.py      with a parent: some sentences of the parent in other words

context.py          the topic of one text, and the words for its slots
targets.py          attribute values: sentences that express them, patterns that find them
insertion.py        inserts the target values into a text
rewording.py        synonyms; new names and numbers
utterances.py       a text as a list of sentences with their speakers
knowledge.py        general knowledge of shops, from data/*.yaml
"""
