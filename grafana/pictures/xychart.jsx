// The XY chart over Grafana's plot library: its panel is not on npm. One column of x, one curve a further column.
import { FieldType, formattedValueToString, getFieldColorModeForField, getFieldDisplayName } from '@grafana/data';
import {
  AxisPlacement,
  LegendDisplayMode,
  ScaleDirection,
  ScaleDistribution,
  ScaleOrientation,
} from '@grafana/schema';
import { UPlotChart, UPlotConfigBuilder, VizLayout, VizLegend, useTheme2 } from '@grafana/ui';

function axis(builder, theme, field, { scaleKey, placement, orientation, direction }) {
  const { scaleDistribution, axisLabel } = field.config.custom ?? {};
  builder.addScale({
    scaleKey,
    orientation,
    direction,
    distribution: scaleDistribution?.type ?? ScaleDistribution.Linear,
    log: scaleDistribution?.log,
    min: field.config.min,
    max: field.config.max,
    isTime: false,
  });
  builder.addAxis({
    scaleKey,
    placement,
    theme,
    label: axisLabel,
    distr: scaleDistribution?.type,
    formatValue: (value, decimals) => formattedValueToString(field.display(value, decimals)),
  });
}

function configuration(theme, x, curves) {
  const builder = new UPlotConfigBuilder();
  builder.setMode(1);
  axis(builder, theme, x, {
    scaleKey: 'x',
    placement: AxisPlacement.Bottom,
    orientation: ScaleOrientation.Horizontal,
    direction: ScaleDirection.Right,
  });
  axis(builder, theme, curves[0].field, {
    scaleKey: 'y',
    placement: AxisPlacement.Left,
    orientation: ScaleOrientation.Vertical,
    direction: ScaleDirection.Up,
  });
  for (const { field, colour } of curves) {
    const { lineWidth, lineStyle, pointSize, show } = field.config.custom ?? {};
    builder.addSeries({
      scaleKey: 'y',
      theme,
      lineColor: colour,
      lineWidth,
      lineStyle,
      pointColor: colour,
      pointSize: pointSize?.fixed ?? 3,
      showPoints: show === 'lines' ? 'never' : 'always',
      drawStyle: 'line',
      lineInterpolation: 'linear',
      spanNulls: true,
    });
  }
  return builder;
}

export function XYChart({ data, width, height }) {
  const theme = useTheme2();
  const [frame] = data;
  const [x, ...columns] = frame.fields.filter((field) => field.type === FieldType.number);
  const curves = columns.map((field) => ({
    field,
    label: getFieldDisplayName(field, frame, data),
    colour: getFieldColorModeForField(field).getCalculator(field, theme)(0, 0),
  }));
  const legend = (
    <VizLegend
      displayMode={LegendDisplayMode.List}
      placement="bottom"
      items={curves.filter(({ field }) => !field.config.custom?.hideFrom?.legend).map(({ label, colour, field }) => ({
        label,
        color: colour,
        yAxis: 1,
        lineStyle: field.config.custom?.lineStyle,
      }))}
    />
  );
  const aligned = [x, ...columns].map((field) => Array.from(field.values));
  return (
    <VizLayout width={width} height={height} legend={<VizLayout.Legend placement="bottom">{legend}</VizLayout.Legend>}>
      {(innerWidth, innerHeight) => (
        <UPlotChart
          config={configuration(theme, x, curves)}
          data={aligned}
          width={innerWidth}
          height={innerHeight}
        />
      )}
    </VizLayout>
  );
}
