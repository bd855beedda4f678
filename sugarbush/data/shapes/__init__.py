"""The shape of a record: one string, several text fields, a conversation or a JSON record.

All other modules see one canonical text per record (`Shape.text_of`). The release converts the
synthetic texts back to the columns of the user's file (`Shape.parse`).
"""
