"""Admission of Argo Workflows: plans are written on them when they are created, malformed ones are refused.

    server = WebhookServer(config.webhook, client, mode=…, history=config.history, http=config.http)
    await server.run()

`docs/WEBHOOK.md` is the guide. Whatever goes wrong here, objects are admitted as they are: nobody's work
waits for a scheduler's hints.
"""
