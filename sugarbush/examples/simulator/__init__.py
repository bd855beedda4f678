"""A generator of customer-service texts that needs no model.

writer.py           Simulator: one text per request, by one of three ways
  generic_texts.py  from nothing: dialogues and tickets in a fixed order of turns
  imitation.py      after examples: one example's structure, sentences of the others
  variation.py      near a parent: some sentences in other words

context.py          what one text is about, and the words for its slots
targets.py          the attribute values of a request: sentences that say them, tests that find them
insertion.py        puts the target values into a text
rewording.py        synonyms; new names and numbers
utterances.py       a text as a list of sentences with their speakers
knowledge.py        what is known of shops in general, from data/*.yaml
"""
