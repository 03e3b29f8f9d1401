def kernel(args, lo, hi):
    # multiply: float64, 2-d
    n0 = integer(args, 0)
    n1 = integer(args, 1)
    x0 = buffer(args, 2, float64)
    s3 = integer(args, 3)
    c4 = integer(args, 4)
    c5 = integer(args, 5)
    c6 = integer(args, 6)
    x1 = buffer(args, 7, float64)
    x2 = buffer(args, 8, float64)
    b9 = integer(args, 9)
    c10 = integer(args, 10)
    b11 = integer(args, 11)
    b12 = integer(args, 12)
    b13 = integer(args, 13)
    b14 = integer(args, 14)
    c15 = integer(args, 15)
    s16 = integer(args, 16)
    b17 = integer(args, 17)
    c18 = integer(args, 18)
    s19 = integer(args, 19)
    v5 = float64(0.0)
    v7 = x1[0]
    v11 = float64(2.0)
    v36 = int64(0)
    v40 = float64(0.0)
    v51 = x1[0]
    v55 = float64(2.0)
    for row in range(lo // n1, (hi - 1) // n1 + 1):
        i0 = row
        first = max(lo - row * n1, 0)
        last = min(hi - row * n1, n1)
        if b12 <= i0 < b13:
            for i1 in range(first, min(last, b9)):
                v0 = x0[i0 * s3 + i1 + c4]
                v1 = x0[i0 * s3 + i1 + c5]
                v2 = v0 + v1
                v3 = x0[i0 * s3 + i1 + c6]
                v4 = v2 + v3
                v6 = v4 + v5
                v8 = x0[i0 * s3 + i1]
                v9 = v7 * v8
                v10 = v6 - v9
                v12 = v10 * v11
                x2[i0 * s3 + i1] = v12
            for i1 in range(max(first, b9), min(last, b11)):
                v13 = x0[i0 * s3 + i1 + c4]
                v14 = x0[i0 * s3 + i1 + c5]
                v15 = v13 + v14
                v16 = x0[i0 * s3 + i1 + c6]
                v17 = v15 + v16
                v18 = x0[i0 * s3 + i1 + c10]
                v19 = v17 + v18
                v20 = x0[i0 * s3 + i1]
                v21 = v7 * v20
                v22 = v19 - v21
                v23 = v22 * v11
                x2[i0 * s3 + i1] = v23
            for i1 in range(max(first, b11), last):
                v24 = x0[i0 * s3 + i1 + c4]
                v25 = x0[i0 * s3 + i1 + c5]
                v26 = v24 + v25
                v27 = v26 + v5
                v28 = x0[i0 * s3 + i1 + c10]
                v29 = v27 + v28
                v30 = x0[i0 * s3 + i1]
                v31 = v7 * v30
                v32 = v29 - v31
                v33 = v32 * v11
                x2[i0 * s3 + i1] = v33
        else:
            v34 = int64(i0)
            v35 = (b14 <= v34) & (v34 < b13)
            v37 = int64(i0 + c15)
            v38 = select(v35, v37, v36)
            v42 = (b12 <= v34) & (v34 < b17)
            v43 = int64(i0 + c18)
            v44 = select(v42, v43, v36)
            for i1 in range(first, min(last, b9)):
                v39 = x0[v38 * s16 + i1]
                v41 = select(v35, v39, v40)
                v45 = x0[v44 * s19 + i1]
                v46 = select(v42, v45, v40)
                v47 = v41 + v46
                v48 = x0[i0 * s3 + i1 + c6]
                v49 = v47 + v48
                v50 = v49 + v40
                v52 = x0[i0 * s3 + i1]
                v53 = v51 * v52
                v54 = v50 - v53
                v56 = v54 * v55
                x2[i0 * s3 + i1] = v56
            for i1 in range(max(first, b9), min(last, b11)):
                v57 = x0[v38 * s16 + i1]
                v58 = select(v35, v57, v40)
                v59 = x0[v44 * s19 + i1]
                v60 = select(v42, v59, v40)
                v61 = v58 + v60
                v62 = x0[i0 * s3 + i1 + c6]
                v63 = v61 + v62
                v64 = x0[i0 * s3 + i1 + c10]
                v65 = v63 + v64
                v66 = x0[i0 * s3 + i1]
                v67 = v51 * v66
                v68 = v65 - v67
                v69 = v68 * v55
                x2[i0 * s3 + i1] = v69
            for i1 in range(max(first, b11), last):
                v70 = x0[v38 * s16 + i1]
                v71 = select(v35, v70, v40)
                v72 = x0[v44 * s19 + i1]
                v73 = select(v42, v72, v40)
                v74 = v71 + v73
                v75 = v74 + v40
                v76 = x0[i0 * s3 + i1 + c10]
                v77 = v75 + v76
                v78 = x0[i0 * s3 + i1]
                v79 = v51 * v78
                v80 = v77 - v79
                v81 = v80 * v55
                x2[i0 * s3 + i1] = v81


def kernel(args, lo, hi):
    # add_slice: float64, 2-d
    n0 = integer(args, 0)
    n1 = integer(args, 1)
    b2 = integer(args, 2)
    b3 = integer(args, 3)
    c4 = integer(args, 4)
    b5 = integer(args, 5)
    c6 = integer(args, 6)
    b7 = integer(args, 7)
    x0 = buffer(args, 8, float64)
    s9 = integer(args, 9)
    c10 = integer(args, 10)
    c11 = integer(args, 11)
    x1 = buffer(args, 12, float64)
    s13 = integer(args, 13)
    c14 = integer(args, 14)
    c15 = integer(args, 15)
    c16 = integer(args, 16)
    c17 = integer(args, 17)
    c18 = integer(args, 18)
    b19 = integer(args, 19)
    b20 = integer(args, 20)
    b21 = integer(args, 21)
    c22 = integer(args, 22)
    s23 = integer(args, 23)
    s24 = integer(args, 24)
    c25 = integer(args, 25)
    c26 = integer(args, 26)
    v2 = int64(0)
    v11 = float64(0.0)
    v43 = int64(0)
    v61 = float64(0.0)
    for row in range(lo // n1, (hi - 1) // n1 + 1):
        i0 = row
        first = max(lo - row * n1, 0)
        last = min(hi - row * n1, n1)
        if b19 <= i0 < b20:
            for i1 in range(first, min(last, b5)):
                v0 = int64(i1)
                v1 = (b2 <= v0) & (v0 < b3)
                v3 = int64(i1 + c4)
                v4 = select(v1, v3, v2)
                v5 = (b5 <= v0) & (v0 < n1)
                v6 = int64(i1 + c6)
                v7 = select(v5, v6, v2)
                v8 = (0 <= v0) & (v0 < b7)
                v9 = select(v8, v0, v2)
                v10 = x0[i0 * s9 + v9 + c10]
                v12 = select(v8, v10, v11)
                v13 = x0[i0 * s9 + v7 + c11]
                v14 = v12 + v13
                v15 = select(v5, v14, v12)
                v16 = x0[i0 * s9 + v4]
                v17 = v15 + v16
                v18 = select(v1, v17, v15)
                x1[i0 * s13 + i1] = v18
            for i1 in range(max(first, b5), min(last, b7)):
                v19 = x0[i0 * s9 + i1 + c14]
                v20 = x0[i0 * s9 + i1 + c15]
                v21 = v19 + v20
                v22 = x0[i0 * s9 + i1 + c16]
                v23 = v21 + v22
                x1[i0 * s13 + i1] = v23
            for i1 in range(max(first, b7), last):
                v24 = int64(i1)
                v25 = (b2 <= v24) & (v24 < b3)
                v26 = int64(i1 + c4)
                v27 = select(v25, v26, v2)
                v28 = (b5 <= v24) & (v24 < n1)
                v29 = int64(i1 + c6)
                v30 = select(v28, v29, v2)
                v31 = (0 <= v24) & (v24 < b7)
                v32 = select(v31, v24, v2)
                v33 = x0[i0 * s9 + v32 + c17]
                v34 = select(v31, v33, v11)
                v35 = x0[i0 * s9 + v30 + c18]
                v36 = v34 + v35
                v37 = select(v28, v36, v34)
                v38 = x0[i0 * s9 + v27]
                v39 = v37 + v38
                v40 = select(v25, v39, v37)
                x1[i0 * s13 + i1] = v40
        else:
            v41 = int64(i0)
            v42 = (0 <= v41) & (v41 < b20)
            v44 = select(v42, v41, v43)
            v50 = (b19 <= v41) & (v41 < b21)
            v51 = int64(i0 + c22)
            v52 = select(v50, v51, v43)
            for i1 in range(first, min(last, b5)):
                v45 = int64(i1)
                v46 = (b2 <= v45) & (v45 < b3)
                v47 = int64(i1 + c4)
                v48 = select(v46, v47, v43)
                v49 = v42 & v46
                v53 = (b5 <= v45) & (v45 < n1)
                v54 = int64(i1 + c6)
                v55 = select(v53, v54, v43)
                v56 = v50 & v53
                v57 = (0 <= v45) & (v45 < b7)
                v58 = select(v57, v45, v43)
                v59 = v50 & v57
                v60 = x0[v52 * s23 + v58]
                v62 = select(v59, v60, v61)
                v63 = x0[v52 * s23 + v55]
                v64 = v62 + v63
                v65 = select(v56, v64, v62)
                v66 = x0[v44 * s24 + v48]
                v67 = v65 + v66
                v68 = select(v49, v67, v65)
                x1[i0 * s13 + i1] = v68
            for i1 in range(max(first, b5), min(last, b7)):
                v69 = x0[v52 * s23 + i1]
                v70 = select(v50, v69, v61)
                v71 = x0[v52 * s23 + i1 + c25]
                v72 = v70 + v71
                v73 = select(v50, v72, v70)
                v74 = x0[v44 * s24 + i1 + c26]
                v75 = v73 + v74
                v76 = select(v42, v75, v73)
                x1[i0 * s13 + i1] = v76
            for i1 in range(max(first, b7), last):
                v77 = int64(i1)
                v78 = (b2 <= v77) & (v77 < b3)
                v79 = int64(i1 + c4)
                v80 = select(v78, v79, v43)
                v81 = v42 & v78
                v82 = (b5 <= v77) & (v77 < n1)
                v83 = int64(i1 + c6)
                v84 = select(v82, v83, v43)
                v85 = v50 & v82
                v86 = (0 <= v77) & (v77 < b7)
                v87 = select(v86, v77, v43)
                v88 = v50 & v86
                v89 = x0[v52 * s23 + v87]
                v90 = select(v88, v89, v61)
                v91 = x0[v52 * s23 + v84]
                v92 = v90 + v91
                v93 = select(v85, v92, v90)
                v94 = x0[v44 * s24 + v80]
                v95 = v93 + v94
                v96 = select(v81, v95, v93)
                x1[i0 * s13 + i1] = v96


def kernel(args, lo, hi):
    # add: float64, 2-d
    n0 = integer(args, 0)
    n1 = integer(args, 1)
    x0 = buffer(args, 2, float64)
    s3 = integer(args, 3)
    x1 = buffer(args, 4, float64)
    x2 = buffer(args, 5, float64)
    s6 = integer(args, 6)
    c7 = integer(args, 7)
    c8 = integer(args, 8)
    x3 = buffer(args, 9, float64)
    b10 = integer(args, 10)
    b11 = integer(args, 11)
    c12 = integer(args, 12)
    s13 = integer(args, 13)
    v2 = x1[0]
    v10 = x1[0]
    v14 = int64(0)
    for row in range(lo // n1, (hi - 1) // n1 + 1):
        i0 = row
        first = max(lo - row * n1, 0)
        last = min(hi - row * n1, n1)
        if b10 <= i0 < n0:
            for i1 in range(first, last):
                v0 = x0[i0 * s3 + i1]
                v1 = -v0
                v3 = v1 * v2
                v4 = x2[i0 * s6 + i1 + c7]
                v5 = x0[i0 * s3 + i1 + c8]
                v6 = v4 + v5
                v7 = v3 + v6
                x3[i0 * s3 + i1] = v7
        else:
            v12 = int64(i0)
            v13 = (b10 <= v12) & (v12 < b11)
            v15 = int64(i0 + c12)
            v16 = select(v13, v15, v14)
            for i1 in range(first, last):
                v8 = x0[i0 * s3 + i1]
                v9 = -v8
                v11 = v9 * v10
                v17 = x2[i0 * s6 + i1 + c7]
                v18 = x0[v16 * s13 + i1]
                v19 = v17 + v18
                v20 = select(v13, v19, v17)
                v21 = v11 + v20
                x3[i0 * s3 + i1] = v21
