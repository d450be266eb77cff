// Reads [{panel, answer}] from standard input; writes what Grafana's own transformations make of each answer.
// `answer` is the result of a Prometheus instant query.
'use strict';

const { JSDOM } = require('jsdom');

const dom = new JSDOM('<!doctype html><html><body></body></html>', { url: 'http://localhost/' });
for (const name of ['window', 'document', 'HTMLElement', 'Node', 'Element', 'DOMParser', 'localStorage', 'matchMedia']) {
  Object.defineProperty(globalThis, name, {
    value: name === 'window' ? dom.window : dom.window[name],
    configurable: true,
    writable: true,
  });
}
dom.window.matchMedia = () => ({ matches: false, addListener() {}, removeListener() {} });

const { firstValueFrom } = require('rxjs');
const data = require('@grafana/data');

// Some transformers are exported under two names.
const transformers = new Map(Object.values(data.standardTransformers).map((found) => [found.id, found]));
data.standardTransformersRegistry.setInit(() =>
  [...transformers.values()].map((transformation) => ({
    id: transformation.id,
    name: transformation.name,
    transformation,
  }))
);

// As the data source lays an instant query out in `format: table`: time, labels by name, value.
function table(answer) {
  const labels = [...new Set(answer.flatMap((one) => Object.keys(one.metric)))].sort();
  return data.toDataFrame({
    refId: 'A',
    fields: [
      { name: 'Time', type: 'time', values: answer.map((one) => one.value[0] * 1000) },
      ...labels.map((name) => ({ name, type: 'string', values: answer.map((one) => one.metric[name] ?? '') })),
      { name: 'Value', type: 'number', values: answer.map((one) => Number(one.value[1])) },
    ],
  });
}

function overridden(panel, frame, frames) {
  return (panel.fieldConfig.overrides ?? []).map((override) => {
    const matches = data.getFieldMatcher(override.matcher);
    return frame.fields.filter((field) => matches(field, frame, frames)).map((field) => field.name);
  });
}

async function main() {
  const chunks = [];
  for await (const chunk of process.stdin) {
    chunks.push(chunk);
  }
  const results = [];
  for (const { panel, answer } of JSON.parse(Buffer.concat(chunks))) {
    const frames = await firstValueFrom(
      data.transformDataFrame(panel.transformations ?? [], [table(answer)], { interpolate: (text) => text })
    );
    results.push(
      frames.map((frame) => ({
        fields: frame.fields.map((field) => ({
          name: field.name,
          display: data.getFieldDisplayName(field, frame, frames),
          type: field.type,
          // JSON knows no NaN: told apart from a missing value, because the panel treats them differently.
          values: field.values.map((value) => (Number.isNaN(value) ? 'NaN' : value)),
        })),
        overridden: overridden(panel, frame, frames),
      }))
    );
  }
  process.stdout.write(JSON.stringify(results));
  dom.window.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
