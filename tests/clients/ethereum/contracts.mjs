// Writes the compiled contracts into the file CONTRACTS, for clients in other languages.
import { writeFileSync } from 'node:fs';
import { contracts } from './common.mjs';

writeFileSync(process.env.CONTRACTS, JSON.stringify(contracts()));
