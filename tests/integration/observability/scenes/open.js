// Reads {prometheus, datasource, opened: [{dashboard, chosen}]} from standard input: Prometheus's URL, the data source
// as provisioned, dashboards and what is chosen at their top ({} for what they open with). Opens each dashboard's
// variables by @grafana/scenes, which asks Prometheus by @grafana/prometheus, and writes what became of variables,
// links, titles, queries and annotations.
'use strict';

require('./browser');

const { firstValueFrom, from, map } = require('rxjs');
const runtime = require('@grafana/runtime');
const { PrometheusDatasource } = require('@grafana/prometheus');
const scenes = require('@grafana/scenes');

const PATIENCE_MS = 20000;

// Stands for Grafana's server, which hands the data source's requests on to Prometheus as they are.
function handOn(prometheus) {
  const fetched = ({ url, method = 'GET', params = {}, data = {} }) => {
    const [, path] = /\/resources\/(.*)$/.exec(url);
    const where = new URL(path, `${prometheus}/`);
    Object.entries(params).forEach(([name, value]) => where.searchParams.append(name, value));
    const answer = fetch(where, { method, body: method === 'GET' ? undefined : new URLSearchParams(data) });
    return from(answer.then(async (response) => ({ status: response.status, ok: response.ok, data: await response.json() })));
  };
  return { fetch: fetched, get: async () => ({}), datasourceRequest: (options) => firstValueFrom(fetched(options)) };
}

function variable(model) {
  const { name, label, hide, skipUrlSync, query, current, multi: isMulti, includeAll } = model;
  const common = { name, label, hide, skipUrlSync, query, value: current.value, text: current.text, isMulti, includeAll };
  if (model.type === 'custom') {
    return new scenes.CustomVariable(common);
  }
  const { allValue, datasource, sort, refresh, regex } = model;
  return new scenes.QueryVariable({ ...common, allValue, datasource, sort, refresh, regex });
}

async function settle(set) {
  const end = Date.now() + PATIENCE_MS;
  while (set.state.variables.some((one) => set.isVariableLoadingOrWaitingToUpdate(one))) {
    if (Date.now() > end) {
      throw new Error('the variables were not filled in time');
    }
    await new Promise((done) => setTimeout(done, 20));
  }
}

// The scene that texts are filled in for, as the application keeps it for its template service.
let shown;
const fill = (text, scoped, format) => (text === undefined ? text : scenes.sceneGraph.interpolate(shown, text, scoped, format));

async function open({ dashboard, chosen }, source) {
  const set = new scenes.SceneVariableSet({ variables: dashboard.templating.list.map(variable) });
  shown = new scenes.EmbeddedScene({
    $variables: set,
    $timeRange: new scenes.SceneTimeRange(dashboard.time),
    body: new scenes.SceneFlexLayout({ children: [] }),
  });
  const close = shown.activate();
  await settle(set);
  for (const [name, value] of Object.entries(chosen)) {
    set.getByName(name).changeValueTo(value);
  }
  await settle(set);
  const query = (target) => source.applyTemplateVariables(target, {}).expr;
  const opened = {
    variables: Object.fromEntries(
      set.state.variables.map(({ state }) => [
        state.name,
        { value: state.value, error: state.error ?? null, options: state.options.map(({ label, value }) => [label, value]) },
      ])
    ),
    links: Object.fromEntries(dashboard.links.map(({ title, url }) => [title, fill(url)])),
    titles: dashboard.panels.map(({ title }) => fill(title)),
    queries: dashboard.panels.flatMap(({ title, targets = [] }) =>
      targets.map((target) => ({ panel: title, instant: target.instant, expr: query(target) }))
    ),
    annotations: dashboard.annotations.list.map((one) => source.annotations.prepareAnnotation(one)),
  };
  close();
  return opened;
}

async function main() {
  const chunks = [];
  for await (const chunk of process.stdin) {
    chunks.push(chunk);
  }
  const { prometheus, datasource, opened } = JSON.parse(Buffer.concat(chunks));
  const templates = { replace: fill, getVariables: () => [], containsTemplate: (text) => /\$/.test(text ?? ''), getAdhocFilters: () => [] };
  runtime.setTemplateSrv(templates);
  runtime.setBackendSrv(handOn(prometheus));
  const settings = { ...datasource, id: 1, url: '/proxy', meta: { id: datasource.type, info: {} }, readOnly: true };
  const source = new PrometheusDatasource(settings, templates);
  runtime.setDataSourceSrv({ get: async () => source, getInstanceSettings: () => settings, getList: () => [settings] });
  runtime.setRunRequest((_source, request, ask) =>
    ask(request).pipe(map(({ data }) => ({ state: 'Done', series: data, timeRange: request.range })))
  );
  const results = [];
  for (const one of opened) {
    results.push(await open(one, source));
  }
  process.stdout.write(JSON.stringify(results), () => process.exit(0));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
