// Writes the compiled contracts into the file that CONTRACTS names, for clients of other languages.
import { writeFileSync } from 'node:fs';
import { contracts } from './common.mjs';

writeFileSync(process.env.CONTRACTS, JSON.stringify(contracts()));
