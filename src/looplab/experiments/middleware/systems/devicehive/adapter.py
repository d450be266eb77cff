"""What one device asks of DeviceHive: whether it may, a fresh token, to take a notification."""

import json
from collections.abc import Mapping
from typing import Any

from looplab.experiments.middleware.systems import Answer, Client

JSON = "application/json"
# The name of every notification; their parameters distinguish them.
NOTIFICATION = "lab"


class Adapter:
    """One device with the `entry` that its provisioning returned."""

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self._access, self._refresh = str(entry["access"]), str(entry["refresh"])
        self._own = f"/api/rest/device/{entry['device']}"

    def authorise(self, client: Client) -> Answer:
        """Ask for the device itself: the token must be valid and allow it."""
        status, _ = client.request("GET", self._own, self._headers(), b"")
        return Answer(status, status == 200)

    def refresh(self, client: Client) -> Answer:
        """Exchange the refresh token for a fresh access token."""
        body = json.dumps({"refreshToken": self._refresh}).encode()
        status, answer = client.request("POST", "/auth/rest/token/refresh", {"Content-Type": JSON}, body)
        if status == 201:
            self._access = str(json.loads(answer)["accessToken"])
        return Answer(status, status == 201)

    def post(self, client: Client, name: str, payload: str) -> Answer:
        body = json.dumps({"notification": NOTIFICATION, "parameters": {"n": name, "v": payload}}).encode()
        status, _ = client.request("POST", f"{self._own}/notification", self._headers(), body)
        return Answer(status, status == 201)

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._access}", "Content-Type": JSON}
