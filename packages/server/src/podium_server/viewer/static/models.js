// The models of the server that the person may call.

import { get } from "./api.js";
import { useEffect, useState } from "./vendor/htm-preact.js";

let known = null;

// Returns the models; null while they are loaded, or if they cannot be.
export function useModels(isOn = true) {
  const [models, setModels] = useState(known);
  useEffect(() => {
    if (isOn) get("/v1/models").then((list) => setModels((known = list.data)), () => {});
  }, []);
  return models;
}
