// Reads [{name, dashboard}] from standard input; writes what Grafana's own types (@grafana/schema, checked by
// TypeScript) say against each: unknown keys, wrong values. [{name, part, message}], empty where all is known.
'use strict';

const ts = require('typescript');

// Where the types of a panel's own options are; kinds without field options of their own have none.
const KINDS = {
  stat: { file: 'stat/panelcfg/x/StatPanelCfg', field: false },
  table: { file: 'table/panelcfg/x/TablePanelCfg', field: true },
  text: { file: 'text/panelcfg/x/TextPanelCfg', field: false },
  timeseries: { file: 'timeseries/panelcfg/x/TimeSeriesPanelCfg', field: true },
  xychart: { file: 'xychart/panelcfg/x/XYChartPanelCfg', field: true },
};

// Stored values are plain text where the types have enumerations.
const HEAD = [
  "import type * as schema from '@grafana/schema';",
  'type Known<T> = unknown extends T ? T : T extends string ? `${T}` : T extends number | boolean | null | undefined ? T' +
    ' : T extends Array<infer U> ? Known<U>[] : { [K in keyof T]: Known<T[K]> };',
  "type Bare = Known<Omit<schema.Dashboard, 'panels' | 'templating' | 'annotations'>>;",
  "type BarePanel = Known<Omit<schema.Panel, 'options' | 'fieldConfig' | 'targets'>>;",
  "type Defaults = Known<Omit<schema.FieldConfig, 'custom'>>;",
  "type Matcher = Known<schema.FieldConfigSource['overrides'][number]['matcher']>;",
  // `definition` is what the editor of a query variable keeps beside the query (QueryVariableModel of @grafana/data).
  'type Variable = Known<schema.VariableModel> & { definition?: string };',
  // Of Prometheus's annotations: what names and tags the regions stands beside the query, not in it.
  'type Annotation = Omit<Known<schema.AnnotationQuery>, "target"> & { target: Query & { legendFormat?: string };' +
    ' titleFormat?: string; textFormat?: string; tagKeys?: string; useValueForTime?: boolean };',
  'type Query = Known<schema.DataQuery> & { expr: string; interval?: string; format?: "time_series" | "table";' +
    ' instant?: boolean; range?: boolean; editorMode?: "code" | "builder"; legendFormat?: string };',
  ...Object.entries(KINDS).map(
    ([kind, { file }]) => `import type * as ${kind} from '@grafana/schema/dist/esm/raw/composable/${file}_types.gen';`
  ),
];

function* checks(dashboard) {
  const { panels, templating, annotations, ...rest } = dashboard;
  yield ['dashboard', 'Bare', rest];
  for (const variable of templating.list) {
    yield [`variable ${variable.name}`, 'Variable', variable];
  }
  for (const annotation of annotations.list) {
    yield [`annotation ${annotation.name}`, 'Annotation', annotation];
  }
  for (const panel of panels) {
    yield* ofPanel(panel);
  }
}

function* ofPanel({ options, fieldConfig, targets, ...rest }) {
  const { type: kind, title } = rest;
  yield [title, 'BarePanel', rest];
  yield [`${title}: options`, `Known<Partial<${kind}.Options>>`, options];
  for (const target of targets ?? []) {
    yield [`${title}: query`, 'Query', target];
  }
  if (fieldConfig) {
    const { custom, ...defaults } = fieldConfig.defaults;
    yield [`${title}: defaults`, 'Defaults', defaults];
    yield* ofField(`${title}: defaults`, kind, Object.entries(custom ?? {}));
    for (const { matcher, properties } of fieldConfig.overrides) {
      yield [`${title}: override`, 'Matcher', matcher];
      const [own, common] = [true, false].map((wanted) => properties.filter(({ id }) => id.startsWith('custom.') === wanted));
      yield [`${title}: override`, 'Defaults', Object.fromEntries(common.map(({ id, value }) => [id, value]))];
      yield* ofField(`${title}: override`, kind, own.map(({ id, value }) => [id.slice('custom.'.length), value]));
    }
  }
}

function* ofField(part, kind, entries) {
  if (entries.length) {
    const type = KINDS[kind].field ? `Known<Partial<${kind}.FieldConfig>>` : 'never';
    yield [part, type, Object.fromEntries(entries)];
  }
}

// One line a check, so that a complaint's line tells what it is about.
function complaints(jobs) {
  const labels = [];
  const lines = [...HEAD];
  for (const { name, dashboard } of jobs) {
    for (const [part, type, value] of checks(dashboard)) {
      labels[lines.length] = { name, part };
      lines.push(`export const checked${lines.length}: ${type} = ${JSON.stringify(value)};`);
    }
  }
  const path = `${__dirname}/checked.ts`;
  const options = {
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    types: [],
    lib: ['lib.es2022.d.ts'],
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
  };
  const host = ts.createCompilerHost(options);
  const onDisk = host.getSourceFile;
  host.getSourceFile = (file, ...more) =>
    file === path ? ts.createSourceFile(file, lines.join('\n'), options.target) : onDisk(file, ...more);
  const program = ts.createProgram([path], options, host);
  return ts.getPreEmitDiagnostics(program).map((found) => {
    const at = found.file?.fileName === path ? found.file.getLineAndCharacterOfPosition(found.start).line : -1;
    return { ...(labels[at] ?? { name: '', part: '' }), message: ts.flattenDiagnosticMessageText(found.messageText, ' ') };
  });
}

const chunks = [];
process.stdin.on('data', (chunk) => chunks.push(chunk));
process.stdin.on('end', () => process.stdout.write(JSON.stringify(complaints(JSON.parse(Buffer.concat(chunks))))));
