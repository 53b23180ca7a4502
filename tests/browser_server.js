// The browser that tests share: `node browser_server.js PACKAGE OPTIONS`, of Playwright and for its `launchServer`.
// It prints where it listens, and ends when nobody holds the other end of its standard input, however that came.
const [, , path, options] = process.argv;
const { chromium } = require(path);

(async () => {
  const server = await chromium.launchServer(JSON.parse(options));
  server.on('close', () => process.exit());
  process.stdin.on('end', () => server.close()).resume();
  console.log(server.wsEndpoint());
})();
