// Draws a dashboard in a browser over a real Prometheus by Grafana's own libraries: transformations, field
// configuration, chart, stat, table and panel frame. window.LOOPLAB holds {dashboard, prometheus, from, to (seconds),
// chosen, height}; `height` is the picture's, for the window may be lower. document.title becomes "drawn", or "failed: …".
import {
  FieldConfigOptionsRegistry,
  ThemeContext,
  FieldType,
  applyFieldOverrides,
  createTheme,
  dateTime,
  getFieldDisplayValues,
  identityOverrideProcessor,
  renderTextPanelMarkdown,
  standardTransformers,
  standardTransformersRegistry,
  transformDataFrame,
} from '@grafana/data';
import { BigValue, GlobalStyles, PanelChrome, Table, TimeSeries, VizRepeater } from '@grafana/ui';
import { createRoot } from 'react-dom/client';
import { lastValueFrom } from 'rxjs';

import { frames } from './prometheus';
import { XYChart } from './xychart';

// As a dashboard's grid: 24 columns, rows of 30 pixels, gaps of 8.
const [COLUMNS, ROW_PX, GAP_PX] = [24, 30, 8];
const TIME_ZONE = 'utc';
const DRAWN = ['stat', 'table', 'text', 'timeseries', 'xychart'];
const STANDARD = ['unit', 'decimals', 'min', 'max', 'mappings', 'thresholds', 'color', 'displayName', 'noValue'];

const { dashboard, prometheus, from, to, chosen, height } = window.LOOPLAB;
const theme = createTheme({ colors: { mode: 'light' } });
const timeRange = { from: dateTime(from * 1000), to: dateTime(to * 1000), raw: { from: 'now-1m', to: 'now' } };

// Some transformers are exported under two names.
const transformers = new Map(Object.values(standardTransformers).map((one) => [one.id, one]));
standardTransformersRegistry.setInit(() =>
  [...transformers.values()].map((transformation) => ({ id: transformation.id, name: transformation.name, transformation }))
);

// As Grafana's Prometheus data source writes a choice of several.
function asRegex(value) {
  return [value].flat().map((one) => (one === '$__all' ? '.+' : one)).join('|');
}

function fill(text) {
  const current = dashboard.templating.list.map(({ name, current: { value } }) => [name, value]);
  const values = { ...Object.fromEntries(current), ...chosen, __range: `${to - from}s`, __rate_interval: '5s' };
  return text.replace(/\$(\w+)/g, (all, name) => (name in values ? asRegex(values[name]) : all));
}

// Every property that this panel sets, custom ones included: each panel of Grafana registers its own.
function registry({ defaults, overrides }) {
  const named = overrides.flatMap(({ properties }) => properties.map(({ id }) => id.replace(/^custom\./, '')));
  const custom = [...new Set([...Object.keys(defaults.custom ?? {}), ...named])].filter((id) => !STANDARD.includes(id));
  const item = (id, path, isCustom) => ({
    id, path, isCustom, name: id, process: identityOverrideProcessor,
    // As Grafana: the label of the values is not that of the time axis.
    shouldApply: ({ type }) => path !== 'axisLabel' || type !== FieldType.time,
  });
  return new FieldConfigOptionsRegistry(() => [
    ...STANDARD.map((id) => item(id, id, false)),
    ...custom.map((id) => item(`custom.${id}`, id, true)),
  ]);
}

async function dataOf(panel) {
  if (panel.type === 'text') {
    return [];
  }
  const asked = { prometheus, from, to, stepSeconds: 1, fill };
  const answers = await Promise.all((panel.targets ?? []).map((target) => frames(target, asked)));
  const transformed = await lastValueFrom(
    transformDataFrame(panel.transformations ?? [], answers.flat(), { interpolate: fill })
  );
  return applyFieldOverrides({
    data: transformed,
    fieldConfig: panel.fieldConfig,
    fieldConfigRegistry: registry(panel.fieldConfig),
    replaceVariables: fill,
    theme,
    timeZone: TIME_ZONE,
  });
}

function Stat({ panel, data, width, height }) {
  const { reduceOptions, text, textMode, colorMode, graphMode, justifyMode } = panel.options;
  const getValues = () =>
    getFieldDisplayValues({
      data, reduceOptions, theme, fieldConfig: panel.fieldConfig, replaceVariables: fill, timeZone: TIME_ZONE,
    });
  const draw = ({ value, width: w, height: h, count }) => (
    <BigValue
      {...{ theme, text, textMode, colorMode, graphMode, justifyMode, count }}
      value={value.display}
      width={w}
      height={h}
    />
  );
  return (
    <VizRepeater
      {...{ width, height, getValues }}
      source={data}
      renderCounter={0}
      orientation="auto"
      autoGrid
      renderValue={draw}
    />
  );
}

function Content({ panel, data, width, height }) {
  const size = { width, height };
  if (panel.type === 'text') {
    const html = renderTextPanelMarkdown(fill(panel.options.content));
    return <div className="markdown-html" style={{ padding: '8px' }} dangerouslySetInnerHTML={{ __html: html }} />;
  }
  if (!data.some((frame) => frame.length)) {
    return <div style={{ padding: '8px' }}>{panel.fieldConfig.defaults.noValue ?? 'No data'}</div>;
  }
  if (panel.type === 'stat') {
    return <Stat {...{ panel, data, ...size }} />;
  }
  if (panel.type === 'table') {
    return <Table data={data[0]} {...size} cellHeight={panel.options.cellHeight} />;
  }
  if (panel.type === 'xychart') {
    return <XYChart data={data} {...size} />;
  }
  return <TimeSeries frames={data} {...{ timeRange, timeZone: TIME_ZONE, ...size }} legend={panel.options.legend} />;
}

function Dashboard({ panels, width }) {
  const column = (width - GAP_PX) / COLUMNS;
  return panels.map(({ panel, data }) => {
    const { x, y, w, h } = panel.gridPos;
    const place = {
      position: 'absolute',
      left: GAP_PX + x * column,
      top: GAP_PX + y * (ROW_PX + GAP_PX),
    };
    const size = { width: w * column - GAP_PX, height: h * (ROW_PX + GAP_PX) - GAP_PX };
    return (
      <div key={panel.id} style={place}>
        <PanelChrome title={fill(panel.title)} description={panel.description} {...size}>
          {(innerWidth, innerHeight) => <Content {...{ panel, data, width: innerWidth, height: innerHeight }} />}
        </PanelChrome>
      </div>
    );
  });
}

async function main() {
  // What begins below the picture's edge would be drawn for nobody.
  const seen = ({ gridPos }) => gridPos.y * (ROW_PX + GAP_PX) < height;
  const drawn = dashboard.panels.filter((panel) => DRAWN.includes(panel.type) && seen(panel));
  const panels = await Promise.all(drawn.map(async (panel) => ({ panel, data: await dataOf(panel) })));
  const place = document.body.appendChild(document.createElement('div'));
  createRoot(place).render(
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <Dashboard panels={panels} width={window.innerWidth} />
    </ThemeContext.Provider>
  );
  setTimeout(() => (document.title = 'drawn'), 1000);
}

main().catch((error) => {
  document.title = `failed: ${error}`;
  document.body.textContent = document.title;
});
