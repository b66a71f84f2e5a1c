// Uses podium serve with the SDKs for JavaScript, and prints what each case returned as one JSON object.
// Arguments: the root of the server, and the folder of the npm packages.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [root, folder] = process.argv.slice(2);
const require = createRequire(`${folder}/`);
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const { default: OpenAI } = await load("openai");
const { default: Anthropic } = await load("@anthropic-ai/sdk");
const { generateText, streamText, generateObject, tool, jsonSchema, isStepCount, stepCountIs } = await load("ai");
const { createOpenAI } = await load("@ai-sdk/openai");
const { createOpenAICompatible } = await load("@ai-sdk/openai-compatible");
const { createAnthropic } = await load("@ai-sdk/anthropic");

const base = `${root}/v1`;
const model = "team";
const messages = [{ role: "user", content: "Say hello." }];
const parameters = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};
const openai = new OpenAI({ baseURL: base, apiKey: "none", maxRetries: 0 });
const anthropic = new Anthropic({ baseURL: root, apiKey: "none", maxRetries: 0 });

async function joined(stream, piece) {
  let text = "";
  for await (const each of stream) text += piece(each) ?? "";
  return text;
}

// The tool loop of the Vercel AI SDK: the model calls the tool, and answers with its result.
async function loop(provider) {
  const weather = tool({
    description: "Weather of a city",
    inputSchema: jsonSchema(parameters),
    execute: async ({ city }) => `sun in ${city}`,
  });
  const found = await generateText({
    model: provider,
    prompt: "What is the weather in 'Paris'?",
    tools: { weather },
    stopWhen: (isStepCount ?? stepCountIs)(3),
    maxRetries: 0,
  });
  return { text: found.text, steps: found.steps.length };
}

const streamed = async (provider) =>
  (await joined(streamText({ model: provider, messages, maxRetries: 0 }).textStream, (text) => text));
const object = async (provider) =>
  (await generateObject({
    model: provider,
    schema: jsonSchema(parameters),
    prompt: "Which city? 'Paris'",
    maxRetries: 0,
  })).object;

const ofOpenAI = createOpenAI({ baseURL: base, apiKey: "none" });
const compatible = createOpenAICompatible({ name: "podium", baseURL: base, apiKey: "none", includeUsage: true, supportsStructuredOutputs: true });
const ofAnthropic = createAnthropic({ baseURL: base, apiKey: "none" });
const weather = { name: "weather", description: "Weather of a city", parameters };
const functions = [{ type: "function", function: weather }];
const theirs = { name: "weather", input_schema: parameters };
const asked = [{ role: "user", content: "What is the weather in 'Paris'?" }];
const form = { name: "city", schema: parameters, strict: true };
const respond = async (more) => openai.responses.create({ model, input: "Say hello.", ...more });
const cases = {
  "openai chat usage": async () => {
    let usage;
    const stream = await openai.chat.completions.create({
      model, messages, stream: true, stream_options: { include_usage: true },
    });
    for await (const chunk of stream) usage = chunk.usage ?? usage;
    return usage.total_tokens > 0;
  },
  "openai chat helper": async () =>
    openai.chat.completions.stream({ model, messages }).finalContent(),
  "openai chat parse": async () =>
    (await openai.chat.completions.parse({
      model, messages: asked, response_format: { type: "json_schema", json_schema: form },
    })).choices[0].message.content,
  "openai chat streamed tool": async () =>
    (await openai.chat.completions.stream({ model, messages: asked, tools: functions }).finalMessage())
      .tool_calls[0].function.name,
  "openai responses background": async () => {
    const { id } = await respond({ background: true });
    let last;
    for await (const event of await openai.responses.retrieve(id, { stream: true })) last = event.type;
    return last;
  },
  "openai responses helper": async () =>
    (await openai.responses.stream({ model, input: "Say hello." }).finalResponse()).output_text,
  "openai responses parse": async () =>
    (await openai.responses.parse({ model, input: asked, text: { format: { type: "json_schema", ...form } } })).output_text,
  "anthropic models": async () => (await anthropic.models.list()).data.map((each) => each.id),
  "anthropic streamed tool": async () =>
    (await anthropic.messages.stream({ model, messages: asked, tools: [theirs], max_tokens: 100 }).finalMessage()).stop_reason,
  "vercel compatible object": () => object(compatible.chatModel(model)),
  "vercel openai chat object": () => object(ofOpenAI.chat(model)),
  "vercel anthropic object": () => object(ofAnthropic(model)),
  "openai models": async () => (await openai.models.list()).data.map((each) => each.id),
  "openai chat": async () => (await openai.chat.completions.create({ model, messages })).choices[0].message.content,
  "openai chat stream": async () =>
    joined(
      await openai.chat.completions.create({ model, messages, stream: true }),
      (chunk) => chunk.choices[0]?.delta?.content,
    ),
  "openai chat loop": async () =>
    openai.chat.completions.runTools({
      model,
      messages: [{ role: "user", content: "What is the weather in 'Paris'?" }],
      tools: [
        {
          type: "function",
          function: { ...weather, parse: JSON.parse, function: ({ city }) => `sun in ${city}` },
        },
      ],
    }).finalContent(),
  "openai chat error": async () =>
    openai.chat.completions.create({ model: "none", messages }).catch((error) => `${error.status} ${error.code}`),
  "openai responses": async () => (await openai.responses.create({ model, input: "Say hello." })).output_text,
  "openai responses stream": async () =>
    joined(await openai.responses.create({ model, input: "Say hello.", stream: true }), (event) =>
      event.type === "response.output_text.delta" ? event.delta : "",
    ),
  "anthropic message": async () =>
    (await anthropic.messages.create({ model, messages, max_tokens: 100 })).content.at(-1).text,
  "anthropic loop": async () =>
    (await anthropic.beta.messages.toolRunner({
      model,
      max_tokens: 100,
      messages: [{ role: "user", content: "What is the weather in 'Paris'?" }],
      tools: [{ name: "weather", input_schema: parameters, run: ({ city }) => `sun in ${city}` }],
    })).content.at(-1).text,
  "anthropic stream": async () =>
    (await anthropic.messages.stream({ model, messages, max_tokens: 100 }).finalMessage()).content.at(-1).text,
  "vercel openai chat": () => streamed(ofOpenAI.chat(model)),
  "vercel openai responses": () => streamed(ofOpenAI.responses(model)),
  "vercel openai responses loop": () => loop(ofOpenAI.responses(model)),
  "vercel openai chat loop": () => loop(ofOpenAI.chat(model)),
  "vercel openai object": () => object(ofOpenAI.responses(model)),
  "vercel compatible": () => streamed(compatible.chatModel(model)),
  "vercel compatible loop": () => loop(compatible.chatModel(model)),
  "vercel anthropic": () => streamed(ofAnthropic(model)),
  "vercel anthropic loop": () => loop(ofAnthropic(model)),
};

const found = {};
for (const [name, run] of Object.entries(cases)) {
  found[name] = await run().catch((error) => ({ failed: String(error.stack ?? error) }));
}
console.log(JSON.stringify(found));
