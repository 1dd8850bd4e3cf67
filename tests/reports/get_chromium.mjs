// Unpacks the Chromium of the npm package @sparticuz/chromium, which brings its own libraries and fonts: for machines
// without Chromium and without a root who could install one. Run by `make chromium`: node get_chromium.mjs DIRECTORY,
// where DIRECTORY has the package in its node_modules. Leaves DIRECTORY/chromium, which the tests look for.
import { execFileSync } from 'node:child_process';
import { chmodSync, createReadStream, createWriteStream, readdirSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createBrotliDecompress } from 'node:zlib';

const directory = process.argv[2];
const packed = join(directory, 'node_modules', '@sparticuz', 'chromium', 'bin');
for (const name of readdirSync(packed).filter((one) => one.endsWith('.br'))) {
  const file = join(directory, basename(name, '.br'));
  await pipeline(createReadStream(join(packed, name)), createBrotliDecompress(), createWriteStream(file));
  if (file.endsWith('.tar')) {
    execFileSync('tar', ['-x', '-f', file, '-C', directory]);
    rmSync(file);
  }
}
chmodSync(join(directory, 'chromium'), 0o755);
