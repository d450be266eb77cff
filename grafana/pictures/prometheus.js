// Asks Prometheus as Grafana's server does, and makes the data frames that it would answer with.
import { FieldType, createDataFrame } from '@grafana/data';

async function ask(prometheus, kind, parameters) {
  // POST as the provisioned data source: some queries are longer than an address may be.
  const answer = await fetch(`${prometheus}/api/v1/${kind}`, { method: 'POST', body: new URLSearchParams(parameters) });
  const { status, data, error } = await answer.json();
  if (status !== 'success') {
    throw new Error(`${parameters.query}: ${error}`);
  }
  return data.result;
}

function legend(format, labels) {
  if (!format || format === '__auto') {
    return undefined;
  }
  return format.replace(/{{\s*(\w+)\s*}}/g, (_all, name) => labels[name] ?? '');
}

function series(result, target) {
  return result.map(({ metric, value, values }) => {
    const points = values ?? [value];
    const { __name__, ...labels } = metric;
    const config = { displayNameFromDS: legend(target.legendFormat, labels) };
    return createDataFrame({
      refId: target.refId,
      fields: [
        { name: 'Time', type: FieldType.time, values: points.map(([second]) => second * 1000) },
        { name: 'Value', type: FieldType.number, labels, config, values: points.map(([, text]) => Number(text)) },
      ],
    });
  });
}

function table(result, target) {
  const names = [...new Set(result.flatMap(({ metric }) => Object.keys(metric)))].sort();
  const columns = names.map((name) => ({
    name,
    type: FieldType.string,
    values: result.map(({ metric }) => metric[name] ?? ''),
  }));
  const fields = [
    { name: 'Time', type: FieldType.time, values: result.map(({ value }) => value[0] * 1000) },
    ...columns,
    { name: 'Value', type: FieldType.number, values: result.map(({ value }) => Number(value[1])) },
  ];
  return result.length ? [createDataFrame({ refId: target.refId, fields })] : [];
}

// Return the frames of one target; `fill` puts values in the place of variables, times are in seconds.
export async function frames(target, { prometheus, from, to, stepSeconds, fill }) {
  const query = fill(target.expr);
  if (target.range) {
    const asked = { query, start: from, end: to, step: stepSeconds };
    return series(await ask(prometheus, 'query_range', asked), target);
  }
  const result = await ask(prometheus, 'query', { query, time: to });
  return target.format === 'table' ? table(result, target) : series(result, target);
}
