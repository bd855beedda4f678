"""Where candidates come from: requests in, texts out, with token counts.

what is asked, what comes back  client, prompts, examples, checks, answers, cache, progress
one builder for all             build; estimate, of what a run will ask
openai                          openai, endpoint, batch_api, failures, probe, cost
huggingface                     huggingface, local_model, local_batch, sampling
pool, simulator                 pool; simulator/
labels of private texts         extraction, labels: a trusted endpoint alone
"""
