// @grafana/ui imports this package's default, which a bundler for browsers hands over one level too deep.
module.exports = require('./node_modules/react-custom-scrollbars-2').default;
