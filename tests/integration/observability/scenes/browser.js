// What Grafana's packages expect of a browser when they are loaded, without one.
'use strict';

const Module = require('module');
const { JSDOM } = require('jsdom');

// Node has these, too, but of a kind that jsdom's own do not take.
const OF_JSDOM = ['Event', 'CustomEvent', 'EventTarget', 'MessageEvent', 'navigator'];

const { window } = new JSDOM('<!doctype html>', { url: 'http://localhost/', pretendToBeVisual: true });
class Observer {
  observe() {}
  unobserve() {}
  disconnect() {}
}
window.ResizeObserver = window.IntersectionObserver = Observer;
window.matchMedia = () => ({ matches: false, addListener() {}, removeListener() {}, addEventListener() {} });
window.HTMLCanvasElement.prototype.getContext = () => null;
for (const name of ['window', ...Object.getOwnPropertyNames(window)]) {
  if (name === 'window' || !(name in globalThis) || OF_JSDOM.includes(name)) {
    Object.defineProperty(globalThis, name, { value: window[name], configurable: true, writable: true });
  }
}
// The query editors' text editor runs in browsers alone, and nobody types here.
const load = Module._load;
Module._load = function (request, ...rest) {
  return request.startsWith('monaco-') ? { promLanguageDefinition: { id: 'promql' } } : load.call(this, request, ...rest);
};
for (const kind of ['.css', '.svg']) {
  require.extensions[kind] = () => {};
}
// Standard output is for the answer.
console.log = console.info = console.error;
